//! The part of a lock that survives its leader: the lease or the delay after it, the tombstones, and the requests that
//! ended.
//!
//! Offers and waiters do not: the servers that carry their calls present them again.

use super::{Delay, LastLease, Lock, Tombstone};
use crate::domain::{
    ended::{Ended, EndedLease, RequestEnd},
    lease::Lease,
};

impl Lock {
    /// A lock with this lease and these tombstones, free of anything else.
    pub fn kept(lease: Option<Lease>, tombstones: Vec<Tombstone>) -> Self {
        Self { lease, tombstones, ..Self::default() }
    }

    /// The same lock, unavailable without a lease.
    #[must_use]
    pub fn delayed(self, delay: Delay) -> Self {
        Self { last: delay.last(), delay: Some(Box::new(delay)), ..self }
    }

    /// Remembers a request that ended. What ended first is to be recalled first.
    pub fn recall(&mut self, ended: Ended) {
        if let RequestEnd::Lease(EndedLease { token: Some(token), handed_on, .. }) = ended.end {
            self.last = Some(LastLease { token, end: handed_on, at: ended.at });
        }
        self.ended.push(ended);
    }

    /// Its tombstones, as of the last turn.
    pub fn tombstones(&self) -> &[Tombstone] {
        &self.tombstones
    }

    /// How many requests it has seen ending.
    pub fn ends(&self) -> u64 {
        self.ended.count()
    }

    /// The requests that ended after so many others had.
    pub fn ends_after(&self, ends: u64) -> impl Iterator<Item = &Ended> {
        self.ended.after(ends)
    }
}
