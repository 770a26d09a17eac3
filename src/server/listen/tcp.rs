//! Opens TCP sockets.

use super::BACKLOG;
use crate::config::{ListenAddress, ListenHost};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    collections::BTreeSet,
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};
use tokio::net::{TcpListener, lookup_host};

/// Listens on all addresses that `address` resolves to, at least one. Needs a running tokio runtime.
///
/// Addresses of a name that this machine does not have are skipped (IPv6 may be disabled); it is an error if none is
/// left.
pub(in crate::server) async fn bind(address: &ListenAddress) -> io::Result<Vec<TcpListener>> {
    let port = address.port;
    match &address.host {
        ListenHost::All => Ok(vec![all(port)?]),
        ListenHost::Ip(ip) => Ok(vec![one((*ip, port).into(), None)?]),
        ListenHost::Name(name) => {
            // A set, because a resolver may return an address several times.
            let addresses: BTreeSet<IpAddr> =
                lookup_host((name.as_str(), port)).await?.map(|found| found.ip()).collect();
            every(&addresses, port)
        }
    }
}

/// Listens on IPv6 and IPv4 with one socket, or on IPv4 if there is no IPv6.
fn all(port: u16) -> io::Result<TcpListener> {
    match one((Ipv6Addr::UNSPECIFIED, port).into(), Some(false)) {
        Err(error) if error.kind() != ErrorKind::AddrInUse => one((Ipv4Addr::UNSPECIFIED, port).into(), None),
        result => result,
    }
}

/// Listens on each address, at the same port even if the system chooses the port.
fn every(addresses: &BTreeSet<IpAddr>, port: u16) -> io::Result<Vec<TcpListener>> {
    let mut listeners: Vec<TcpListener> = Vec::with_capacity(addresses.len());
    let mut missing = io::Error::new(ErrorKind::AddrNotAvailable, "the name has no address");
    for address in addresses {
        let port = listeners.first().map_or(Ok(port), |first| first.local_addr().map(|addr| addr.port()))?;
        match one((*address, port).into(), None) {
            Ok(listener) => listeners.push(listener),
            Err(error) if not_here(&error) => missing = error,
            Err(error) => return Err(error),
        }
    }
    if listeners.is_empty() { Err(missing) } else { Ok(listeners) }
}

/// Whether this machine lacks the address, or its family.
fn not_here(error: &io::Error) -> bool {
    error.kind() == ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(nix::libc::EAFNOSUPPORT)
}

/// Listens on one address. `only_v6` sets whether an IPv6 socket refuses IPv4; `None` leaves it to the system.
fn one(address: SocketAddr, only_v6: Option<bool>) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(only_v6) = only_v6 {
        socket.set_only_v6(only_v6)?;
    }
    // Otherwise connections of a server that has just ended would block the port for a minute.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    async fn bound(text: &str) -> Vec<SocketAddr> {
        let listeners = bind(&text.parse().unwrap()).await.unwrap();
        listeners.iter().map(|listener| listener.local_addr().unwrap()).collect()
    }

    /// Whether a connection to this address is accepted.
    async fn reaches(to: (IpAddr, u16)) -> bool {
        TcpStream::connect(to).await.is_ok()
    }

    fn has_ipv6() -> bool {
        std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
    }

    #[tokio::test]
    async fn without_a_host_it_listens_on_all_addresses_of_both_families() {
        let listeners = bind(&":0".parse().unwrap()).await.unwrap();
        assert_eq!(listeners.len(), 1);
        let port = listeners[0].local_addr().unwrap().port();
        assert!(reaches((Ipv4Addr::LOCALHOST.into(), port)).await);
        assert_eq!(reaches((Ipv6Addr::LOCALHOST.into(), port)).await, has_ipv6());
    }

    #[tokio::test]
    async fn a_name_means_all_its_addresses() {
        let bound = bound("localhost:0").await;
        assert!(!bound.is_empty() && bound.iter().all(|addr| addr.ip().is_loopback()), "{bound:?}");
        assert!(bound.iter().all(|addr| addr.port() == bound[0].port()), "{bound:?}");
    }

    #[tokio::test]
    async fn addresses_share_a_port_and_those_of_other_machines_are_skipped() {
        // An address of TEST-NET-1, which no machine has.
        let elsewhere = IpAddr::from([192, 0, 2, 1]);
        let (v4, v6) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST));
        let listeners = every(&BTreeSet::from([elsewhere, v4, v6]), 0).unwrap();
        assert_eq!(listeners.len(), 1 + usize::from(has_ipv6()));
        let port = listeners[0].local_addr().unwrap().port();
        assert!(reaches((v4, port)).await);
        assert_eq!(reaches((v6, port)).await, has_ipv6());
        assert_eq!(every(&BTreeSet::from([elsewhere]), 0).unwrap_err().kind(), ErrorKind::AddrNotAvailable);
        let taken = every(&BTreeSet::from([v4]), port).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    }
}
