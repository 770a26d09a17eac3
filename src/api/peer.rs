//! Where a connection comes from.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// The other end of a connection. `server` adds it to each request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// This TCP address.
    Tcp(SocketAddr),
    /// A process on this machine, through a Unix socket.
    Unix,
}

impl Peer {
    /// The IP address; an IPv4 address also on an IPv6 socket.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(addr) => Some(addr.ip().to_canonical()),
            Self::Unix => None,
        }
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
