//! The bounds on open connections and on handshakes under way: of the server, and of one IP address.
//!
//! Processes that connect through a Unix socket have no IP address and so no share: only the user of the server can
//! connect there, and no other clients are beside them.

use crate::{
    api::peer::Peer,
    telemetry::metrics::{Bound, ConnectionMetrics},
};
use parking_lot::Mutex;
use std::{collections::HashMap, net::IpAddr, sync::Arc};

/// The most handshakes at a time. One of TLS takes up to a millisecond of a core, so those that are under way can end
/// within their time.
const HANDSHAKES_MAX: usize = 1_024;
/// The most handshakes at a time with one IP address, so that clients at others can connect beside one that opens
/// silent connections again and again. Enough for a proxy in front of all clients: a handshake takes milliseconds.
const HANDSHAKES_PER_PEER: usize = HANDSHAKES_MAX / 4;

/// Counts open connections, and those of them whose handshake is under way.
#[derive(Debug)]
pub(in crate::server) struct Admission {
    connections_max: usize,
    per_peer: usize,
    open: Mutex<Open>,
    metrics: Arc<ConnectionMetrics>,
}

#[derive(Debug, Default)]
struct Open {
    all: Count,
    /// Only networks with open connections.
    peers: HashMap<IpAddr, Count>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    connections: usize,
    handshakes: usize,
}

/// The permit of one open connection. Dropped, it makes room for another one.
#[derive(Debug)]
pub(super) struct Permit {
    admission: Arc<Admission>,
    ip: Option<IpAddr>,
    in_handshake: bool,
}

impl Admission {
    pub(in crate::server) fn new(connections_max: usize, per_peer: usize, metrics: Arc<ConnectionMetrics>) -> Self {
        Self { connections_max, per_peer, open: Mutex::default(), metrics }
    }

    /// A permit for a connection from `peer`, or the bound that is reached.
    pub(super) fn admit(self: &Arc<Self>, peer: Peer) -> Result<Permit, Bound> {
        let ip = peer.network();
        let mut open = self.open.lock();
        if open.all.connections >= self.connections_max {
            return Err(Bound::Connections);
        }
        if open.all.handshakes >= HANDSHAKES_MAX {
            return Err(Bound::Handshakes);
        }
        if let Some(ip) = ip {
            let mut of_peer = open.peers.get(&ip).copied().unwrap_or_default();
            if of_peer.connections >= self.per_peer {
                return Err(Bound::ConnectionsPerPeer);
            }
            if of_peer.handshakes >= HANDSHAKES_PER_PEER {
                return Err(Bound::HandshakesPerPeer);
            }
            of_peer.add();
            open.peers.insert(ip, of_peer);
        }
        open.all.add();
        drop(open);
        self.metrics.open.inc();
        Ok(Permit { admission: self.clone(), ip, in_handshake: true })
    }
}

impl Count {
    /// A connection, which begins with its handshake.
    fn add(&mut self) {
        self.connections += 1;
        self.handshakes += 1;
    }
}

impl Open {
    /// The counts to which a connection from this address belongs.
    fn counts(&mut self, ip: Option<IpAddr>) -> impl Iterator<Item = &mut Count> {
        let of_peer = ip.and_then(|ip| self.peers.get_mut(&ip));
        [Some(&mut self.all), of_peer].into_iter().flatten()
    }
}

impl Permit {
    /// The handshake has ended; the connection stays open.
    pub(super) fn end_handshake(&mut self) {
        if std::mem::take(&mut self.in_handshake) {
            self.admission.open.lock().counts(self.ip).for_each(|count| count.handshakes -= 1);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.end_handshake();
        self.admission.metrics.open.dec();
        let mut open = self.admission.open.lock();
        open.counts(self.ip).for_each(|count| count.connections -= 1);
        if let Some(ip) = self.ip
            && open.peers.get(&ip).is_some_and(|of_peer| of_peer.connections == 0)
        {
            open.peers.remove(&ip);
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
        assert_eq!((open.all.connections, open.peers.len(), admission.metrics.open.get()), (1, 1, 1));
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let admission = Arc::new(Admission::new(9, 2, Arc::default()));
        let _two = ["[2001:db8::1]:1", "[2001:db8::ffff:2]:1"].map(|text| admission.admit(peer(text)).unwrap());
        assert_eq!(admission.admit(peer("[2001:db8::3]:1")).unwrap_err(), Bound::ConnectionsPerPeer);
        admission.admit(peer("[2001:db8:0:1::1]:1")).unwrap();
    }

    #[test]
    fn an_address_has_a_share_of_the_handshakes_and_gets_it_back_when_they_end() {
        let admission = Arc::new(Admission::new(10_000, 10_000, Arc::default()));
        let mut one: Vec<_> = (0..HANDSHAKES_PER_PEER).map(|_| admission.admit(peer("10.0.0.1:1")).unwrap()).collect();
        assert_eq!(admission.admit(peer("10.0.0.1:2")).unwrap_err(), Bound::HandshakesPerPeer);
        let _others: Vec<_> = (HANDSHAKES_PER_PEER..HANDSHAKES_MAX)
            .map(|number| admission.admit(peer(&format!("10.0.1.{}:1", number % 4))).unwrap())
            .collect();
        assert_eq!(admission.admit(peer("10.0.0.2:1")).unwrap_err(), Bound::Handshakes);
        // One has become an open connection, and one has failed.
        one[0].end_handshake();
        one.pop();
        let again = [admission.admit(peer("10.0.0.1:2")).unwrap(), admission.admit(peer("10.0.0.1:3")).unwrap()];
        assert_eq!(admission.admit(peer("10.0.0.1:4")).unwrap_err(), Bound::Handshakes);
        drop((one, again));
        let open = admission.open.lock();
        let left = HANDSHAKES_MAX - HANDSHAKES_PER_PEER;
        assert_eq!(open.all, Count { connections: left, handshakes: left });
    }
}
