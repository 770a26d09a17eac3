//! The part of a lock that survives its leader: the lease or the delay after it, the tombstones, and the requests that
//! ended.
//!
//! Offers and waiters do not: the servers that carry their calls present them again.

use super::{Delay, LastLease, Lock, Tombstone};
use crate::domain::{
    ended::{Ended, RequestEnd},
    lease::Lease,
    token::FencingToken,
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

    /// Remembers a request that ended, and the token of its lease. What ended first is to be recalled first.
    pub fn recall(&mut self, ended: Ended, token: Option<FencingToken>) {
        if let (RequestEnd::Lease(_, end), Some(token)) = (ended.end, token) {
            self.last = Some(LastLease { token, end, at: ended.at });
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

    /// The requests that ended after so many others had, with the tokens of their leases. One turn ends one lease at
    /// most, with the delay after it, so after each turn all tokens are known.
    pub fn ends_after(&self, ends: u64) -> impl Iterator<Item = (&Ended, Option<FencingToken>)> {
        self.ended.after(ends).map(|ended| {
            let of_lease = matches!(ended.end, RequestEnd::Lease(..));
            (ended, self.last.filter(|_| of_lease).map(|last| last.token))
        })
    }
}
