//! Where a connection comes from, and what its client showed.

use crate::access;
use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};
use tonic::codegen::http::Extensions;

/// A connection, as the calls on it know it. `server` adds it to the extensions of each request: one value, because
/// each costs an allocation.
pub struct Origin {
    peer: Peer,
    /// What its client showed. None without an access file, because then nobody asks.
    pub(super) shown: Option<access::Connection>,
}

impl Origin {
    /// A connection to this peer.
    pub fn new(peer: Peer, shown: Option<access::Connection>) -> Arc<Self> {
        Arc::new(Self { peer, shown })
    }

    /// Whom the connection is from.
    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    /// That of a request, if it came over a connection.
    pub(super) fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get::<Arc<Self>>().map(|origin| &**origin)
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// This TCP address.
    Tcp(SocketAddr),
    /// A process on this machine, through a Unix socket.
    Unix,
}

impl Peer {
    /// That of a request, if it came over a connection.
    pub fn of(extensions: &Extensions) -> Option<Self> {
        Origin::of(extensions).map(Origin::peer)
    }

    /// The IP address; an IPv4 address also on an IPv6 socket.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(addr) => Some(addr.ip().to_canonical()),
            Self::Unix => None,
        }
    }

    /// What counts as one IP address in bounds: of IPv6 a network of 64 bits, because each machine can choose any
    /// address of its network.
    pub fn network(&self) -> Option<IpAddr> {
        const HOST: u128 = u64::MAX as u128;
        Some(match self.ip()? {
            ip @ IpAddr::V4(_) => ip,
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !HOST).into(),
        })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => SocketAddr::new(addr.ip().to_canonical(), addr.port()).fmt(out),
            Self::Unix => out.write_str("unix"),
        }
    }
}
