//! The queue of a new leader: waiters of its predecessors come before new requests.

use crate::{
    domain::time::StoreTime,
    store::quorum::{paxos::ballot::ServerId, rpc::messages::PresentedWaiter},
};
use std::{collections::BTreeSet, time::Duration};

/// How long a new leader waits for servers to present their waiters. Meanwhile it grants nothing to others.
pub(super) const GATHER_TIME_MAX: Duration = Duration::from_secs(1);

/// A leader that waits for what servers present.
#[derive(Debug)]
pub(super) struct Gathering {
    /// Servers that have not presented all.
    awaited: BTreeSet<ServerId>,
    until: StoreTime,
    waiters: Vec<(ServerId, PresentedWaiter)>,
}

impl Gathering {
    /// Waits for these servers, from `now` on, by the server's clock.
    pub(crate) fn of(servers: impl IntoIterator<Item = ServerId>, now: StoreTime) -> Self {
        let awaited = servers.into_iter().collect();
        Self { awaited, until: now.after(GATHER_TIME_MAX), waiters: Vec::new() }
    }

    /// Takes what a server presents.
    pub(crate) fn presents(&mut self, server: ServerId, waiters: Vec<PresentedWaiter>, is_last: bool) {
        self.waiters.extend(waiters.into_iter().map(|waiter| (server, waiter)));
        if is_last {
            self.awaited.remove(&server);
        }
    }

    /// Waits only for these of the servers any more: the others have left, or died.
    pub(super) fn only_of(&mut self, servers: &BTreeSet<ServerId>) {
        self.awaited.retain(|server| servers.contains(server));
    }

    /// Whether all have presented their waiters, or their time is over.
    pub(crate) fn is_over(&self, now: StoreTime) -> bool {
        self.awaited.is_empty() || self.until <= now
    }

    /// When its time is over, by the server's clock.
    pub(crate) fn until(&self) -> StoreTime {
        self.until
    }

    /// The waiters, in the order in which they came to the leaders before.
    pub(super) fn into_waiters(self) -> Vec<(ServerId, PresentedWaiter)> {
        let Self { mut waiters, .. } = self;
        waiters.sort_by_key(|(_, waiter)| waiter.queue_position);
        waiters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{
            command::{Acquire, Candidate},
            ids::{Call, CallId, GrantId, LeaseId, RequestId},
            lease::Terms,
            name::{Holder, LockName, Metadata},
        },
        store::quorum::paxos::ballot::Ballot,
    };
    use uuid::Uuid;

    fn waiter(round: u64, number: u64) -> PresentedWaiter {
        let request = RequestId(Uuid::from_u128(u128::from(number)));
        let candidate = Candidate { lease_id: LeaseId(request.0), grant_id: GrantId(request.0), attachment: None };
        let terms = Terms {
            fingerprint: 0,
            ttl: Duration::from_secs(1),
            holder: Holder::default(),
            metadata: Metadata::default(),
            min_token: 0,
            max_hold: None,
            extra: None,
            mode: Default::default(),
        };
        PresentedWaiter {
            queue_position: (Ballot { round, ..Ballot::default() }, number),
            name: LockName::new("lock").unwrap(),
            acquire: Acquire { call: Call { request, attempt: 1, id: CallId(1) }, terms, wait: true, candidate },
            is_dropped: false,
        }
    }

    #[test]
    fn waiters_come_in_their_old_order_whoever_presents_them() {
        let [one, two, three] = [1, 2, 3].map(|id| ServerId([id; 12]));
        let now = StoreTime::from_micros(5);
        let mut it = Gathering::of([one, two, three], now);
        it.presents(two, vec![waiter(3, 2), waiter(2, 9)], false);
        it.presents(one, vec![waiter(3, 1)], true);
        it.presents(two, vec![waiter(1, 4)], true);
        assert!(!it.is_over(now), "the third has not answered");
        let mut others = Gathering::of([one, two, three], now);
        others.only_of(&BTreeSet::from([two]));
        others.presents(two, vec![], true);
        assert!(others.is_over(now), "the others have left");
        assert!(it.is_over(now.after(GATHER_TIME_MAX)));
        it.presents(three, vec![], true);
        assert!(it.is_over(now));
        let order: Vec<_> =
            it.into_waiters().into_iter().map(|(_, it)| (it.queue_position.0.round, it.queue_position.1)).collect();
        assert_eq!(order, [(1, 4), (2, 9), (3, 1), (3, 2)]);
    }
}
