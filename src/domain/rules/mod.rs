//! The rules: what may happen to one lock.
//!
//! A [`Turn`] is one command's stay with a lock: it is given the time, decides without asking anything else, changes
//! the lock and its bucket's sequencer, and says what that set off. Each command first settles what time has brought
//! (expiry, lapsed offers, hand-off), so that no lease depends on when a timer happened to fire; an offer's window
//! begins when it is made.

mod acquire;
mod holding;
mod settle;
#[cfg(test)]
mod tests;
mod view;
mod waiting;

pub use acquire::{Acquire, Candidate};
pub use waiting::Next;

use super::{
    ended::EndedRequests,
    ids::{Call, Incarnation, ReplicaId, RequestId},
    lease::{Lease, LeaseEnd},
    outcome::{ClassicHold, Effects},
    queue::{Queue, Standing},
    replicas::Replicas,
    time::StoreTime,
    token::{FencingToken, Sequencer},
};
use std::time::Duration;

/// Everything that is known of one lock.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    lease: Option<Lease>,
    offer: Option<Offer>,
    queue: Option<Box<Queue>>,
    ended: EndedRequests,
    marks: Vec<Mark>,
    last: Option<LastLease>,
}

/// The lock, held out to a waiter. Not a lease: it has no token, and when it lapses it leaves no trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    request: RequestId,
    until: StoreTime,
}

/// Left by the clean-up of a dropped call that overtook its own command: the command, when it comes, changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    call: Call,
    until: StoreTime,
}

impl Mark {
    /// The command may act up to and at its `not_after`, so its mark holds as long.
    fn is_live(&self, now: StoreTime) -> bool {
        now <= self.until
    }
}

/// The lease that ended last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastLease {
    token: FencingToken,
    end: LeaseEnd,
    at: StoreTime,
}

/// One command's stay with a lock.
pub struct Turn<'a> {
    /// The lock.
    pub lock: &'a mut Lock,
    /// Its bucket's sequencer.
    pub sequencer: &'a mut Sequencer,
    /// Filled with what the command sets off.
    pub effects: &'a mut Effects,
    /// The store's time, read once for the whole turn.
    pub now: StoreTime,
    /// Until when the command may act: later its caller has given up.
    pub not_after: StoreTime,
    /// The life of the store that the command was meant for.
    pub incarnation: Incarnation,
    /// The one that the store is in.
    pub present: Incarnation,
    /// The server replica that sent the command.
    pub replica: ReplicaId,
    /// The replicas of the lock's bucket.
    pub replicas: &'a mut Replicas,
    /// The highest token of the bucket that the replica has seen: what the store forgot, it may remember.
    pub known_token: u64,
    /// How many requests may wait for the lock.
    pub waiters_max: usize,
    /// The classic client that holds the lock past these rules, if there is one. No lease is granted beside it.
    pub classic: Option<ClassicHold>,
}

impl Lock {
    /// Whether nothing is known of it, so that it need not be kept.
    pub fn is_idle(&self) -> bool {
        self.lease.is_none() && self.queue.is_none() && self.ended.is_empty() && self.marks.is_empty()
    }

    /// The lease that holds it, as of the last turn.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// How many stand in line before this request, at most: those between that left the line are counted still.
    pub fn ahead(&self, request: RequestId) -> Option<u64> {
        let queue = self.queue.as_ref()?;
        let place = queue.get(request)?.place;
        Some(queue.first_place().map_or(0, |first| place.saturating_sub(first)))
    }

    /// Until when it is on offer to a waiter, as of the last turn.
    pub fn offered_until(&self) -> Option<StoreTime> {
        self.offer.map(|offer| offer.until)
    }

    /// When time will next change it (or allow to forget something of it).
    pub fn next_due(&self) -> Option<StoreTime> {
        let queue = self.queue.as_ref().and_then(|queue| queue.next_due());
        let marks = self.marks.iter().map(|mark| mark.until.after(Duration::from_micros(1))).min();
        let lease = self.lease.as_ref().map(|lease| lease.expires_at);
        let offer = self.offer.map(|offer| offer.until);
        [lease, offer, queue, self.ended.next_due(), marks].into_iter().flatten().min()
    }

    /// Checks what must always hold between turns.
    pub fn check(&self) {
        assert!(self.lease.is_none() || self.offer.is_none(), "a lock that is held is not on offer");
        if let Some(offer) = self.offer {
            let waiter = self.queue.as_ref().and_then(|queue| queue.get(offer.request));
            assert!(
                waiter.is_some_and(|waiter| waiter.standing() == Standing::Offered),
                "what is offered, is offered to a waiter"
            );
        }
        if let Some(queue) = &self.queue {
            assert!(!queue.is_empty(), "an empty queue is given up");
            queue.check(self.offer.is_some());
        }
        self.ended.check();
        if let (Some(lease), Some(last)) = (&self.lease, &self.last) {
            assert!(lease.token > last.token, "tokens rise from lease to lease");
        }
    }

    /// How many wait at `now`: not those whose calls were dropped too long ago, cleared away or not.
    fn waiters(&self, now: StoreTime) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.len() - queue.abandoned(now))
    }
}
