//! The bounds on open connections: of the server, and of one IP address.

use crate::{
    api::peer::Peer,
    telemetry::metrics::{Bound, ConnectionMetrics},
};
use parking_lot::Mutex;
use std::{collections::HashMap, net::IpAddr, sync::Arc};

/// Counts open connections.
#[derive(Debug)]
pub(in crate::server) struct Admission {
    connections_max: usize,
    per_peer: usize,
    open: Mutex<Open>,
    metrics: Arc<ConnectionMetrics>,
}

#[derive(Debug, Default)]
struct Open {
    connections: usize,
    /// Only IP addresses with open connections.
    peers: HashMap<IpAddr, usize>,
}

/// The permit of one open connection. Dropped, it makes room for another one.
#[derive(Debug)]
pub(super) struct Permit {
    admission: Arc<Admission>,
    ip: Option<IpAddr>,
}

impl Admission {
    pub(in crate::server) fn new(connections_max: usize, per_peer: usize, metrics: Arc<ConnectionMetrics>) -> Self {
        Self { connections_max, per_peer, open: Mutex::default(), metrics }
    }

    /// A permit for a connection from `peer`, or the bound that is reached.
    pub(super) fn admit(self: &Arc<Self>, peer: Peer) -> Result<Permit, Bound> {
        let ip = peer.ip();
        let mut open = self.open.lock();
        if open.connections >= self.connections_max {
            return Err(Bound::Connections);
        }
        if let Some(ip) = ip {
            let of_peer = open.peers.get(&ip).copied().unwrap_or_default();
            if of_peer >= self.per_peer {
                return Err(Bound::ConnectionsPerPeer);
            }
            open.peers.insert(ip, of_peer + 1);
        }
        open.connections += 1;
        drop(open);
        self.metrics.open.inc();
        Ok(Permit { admission: self.clone(), ip })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.metrics.open.dec();
        let mut open = self.admission.open.lock();
        open.connections -= 1;
        if let Some(ip) = self.ip
            && let Some(of_peer) = open.peers.get_mut(&ip)
        {
            *of_peer -= 1;
            if *of_peer == 0 {
                open.peers.remove(&ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::Tcp(text.parse().unwrap())
    }

    #[test]
    fn permits_are_bounded_per_peer_and_in_all_and_free_again_when_dropped() {
        let admission = Arc::new(Admission::new(4, 2, Arc::default()));
        let first = admission.admit(peer("10.0.0.1:1")).unwrap();
        // The same machine, as an IPv6 socket shows it.
        let _second = admission.admit(peer("[::ffff:10.0.0.1]:2")).unwrap();
        assert_eq!(admission.admit(peer("10.0.0.1:3")).unwrap_err(), Bound::ConnectionsPerPeer);
        let other = admission.admit(peer("10.0.0.2:1")).unwrap();
        // Processes on this machine have no IP address; only the bound of the server counts.
        let unix = admission.admit(Peer::Unix).unwrap();
        assert_eq!(admission.admit(Peer::Unix).unwrap_err(), Bound::Connections);
        assert_eq!(admission.admit(peer("10.0.0.3:1")).unwrap_err(), Bound::Connections);
        drop((first, unix));
        let again = admission.admit(peer("10.0.0.1:4")).unwrap();
        assert_eq!(admission.admit(peer("10.0.0.1:5")).unwrap_err(), Bound::ConnectionsPerPeer);
        drop((other, again));
        let open = admission.open.lock();
        assert_eq!((open.connections, open.peers.len(), admission.metrics.open.get()), (1, 1, 1));
    }
}
