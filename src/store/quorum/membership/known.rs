//! The leader of a partition as another server knows it, and the partition's time there.

use crate::{domain::time::StoreTime, store::quorum::paxos::ballot::Ballot};

/// The rates of two clocks differ by this part of them, at most: the drift of 1 % that a holder keeps back, too.
const CLOCKS_DIFFER_BY: u32 = 100;

/// A partition's leader, as its heartbeat says, and when that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its ballot.
    pub(crate) ballot: Ballot,
    /// The partition's time when the leader sent that, so not ahead of it.
    pub(crate) time: StoreTime,
    /// When this was heard, on the store's clock of this server.
    pub(crate) heard: StoreTime,
}

impl Known {
    /// The partition's time when the store's clock of this server shows `now`: not ahead of the leader's, even if this
    /// server's clock is the faster one.
    pub(crate) fn at(self, now: StoreTime) -> StoreTime {
        let passed = now.since(self.heard);
        self.time.after(passed - passed / CLOCKS_DIFFER_BY)
    }
}
