//! Counts the unary calls whose messages have not arrived with their headers, by the address that they come from.
//!
//! A call costs its client a header; so without a bound one client could have as many of them as the server may have
//! open at all, for as long as a message may take, and nobody knows yet whose they are.

use crate::api::peer::Peer;
use parking_lot::Mutex;
use std::{collections::HashMap, net::IpAddr, sync::Arc};

/// The most late calls of one address at a time. Messages follow their headers at once but on a slow line, so these are
/// many even for all clients behind a proxy.
pub(super) const LATE_PER_PEER: usize = 1_024;

/// The late calls of the server, by address.
#[derive(Debug, Default)]
pub(super) struct LateCalls(Mutex<HashMap<IpAddr, usize>>);

/// A late call. Dropped, its message has arrived, or the call has ended.
#[derive(Debug)]
pub(super) struct LateCall(Arc<LateCalls>, Option<IpAddr>);

impl LateCalls {
    /// Counts a call of this peer; `None` if it has too many. A process on this machine is not counted.
    pub(super) fn begin(self: &Arc<Self>, peer: Option<Peer>) -> Option<LateCall> {
        let network = peer.and_then(|peer| peer.network());
        if let Some(network) = network {
            let mut late = self.0.lock();
            let count = late.entry(network).or_default();
            if *count >= LATE_PER_PEER {
                return None;
            }
            *count += 1;
        }
        Some(LateCall(self.clone(), network))
    }
}

impl Drop for LateCall {
    fn drop(&mut self) {
        let Some(network) = self.1 else { return };
        let mut late = self.0.0.lock();
        if let Some(count) = late.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                late.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_late_calls_and_others_have_their_own() {
        let late = Arc::<LateCalls>::default();
        let peer = |text: &str| Some(Peer::Tcp(text.parse().unwrap()));
        let mut of_one: Vec<_> = (0..LATE_PER_PEER).map(|_| late.begin(peer("10.0.0.1:1")).unwrap()).collect();
        assert!(late.begin(peer("10.0.0.1:2")).is_none(), "it counts by address");
        let other = late.begin(peer("10.0.0.2:1")).unwrap();
        of_one.pop();
        let again = late.begin(peer("10.0.0.1:3")).unwrap();
        let unix: Vec<_> = (0..2 * LATE_PER_PEER).map(|_| late.begin(Some(Peer::Unix)).unwrap()).collect();
        drop((of_one, other, again, unix));
        assert!(late.0.lock().is_empty(), "nothing is left of calls that have ended");
    }
}
