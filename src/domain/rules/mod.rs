//! The state machine of one lock.
//!
//! A [`Turn`] is one command executed on one lock. It is given the time, changes the lock and its partition's
//! sequencer, and returns an outcome and effects; it does no I/O and reads no clock. Each command first applies what
//! time has brought (expiry, lapsed offers, hand-off), so no lease depends on when a timer happens to fire. The window
//! of an offer begins when the offer is made.

mod acquire;
mod apply_time;
mod convert;
mod delay;
mod describe;
mod ghosts;
mod holding;
mod kept;
mod permits;
mod shares;
mod sharing;
mod slots;
#[cfg(test)]
mod tests;
mod view;
mod waiting;
mod wanted;

pub use delay::Delay;
pub use ghosts::Ghost;
pub use waiting::Next;

use super::{
    command::{Command, Effects, Outcome},
    ended::EndedRequests,
    features::Features,
    ids::{Call, ReplicaId, RequestId},
    lease::{Lease, LeaseEnd},
    mode::Mode,
    outcome::{ClassicHold, LockView},
    queue::{Queue, Waiter, WaiterState},
    replicas::Replicas,
    time::StoreTime,
    token::{FencingToken, Sequencer},
};
use shares::Shares;
use sharing::ChangedShares;
use std::time::Duration;

/// The state of one lock.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    lease: Option<Lease>,
    offer: Option<Offer>,
    queue: Option<Box<Queue>>,
    ended: EndedRequests,
    tombstones: Vec<Tombstone>,
    last: Option<LastLease>,
    /// The lock is unavailable, although nobody holds it.
    delay: Option<Box<Delay>>,
    shares: Option<Box<Shares>>,
    /// The shared leases that turns changed, for who keeps them. In a box, so that other locks do not pay for it.
    changed_shares: Option<Box<ChangedShares>>,
}

/// An offer of the lock to a waiter. It is not a lease: it has no token, and leaves no trace when it lapses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    request: RequestId,
    until: StoreTime,
}

/// A tombstone that the cleanup of a dropped call leaves when it overtook the command of that call: the command changes
/// nothing when it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The call.
    pub call: Call,
    /// The last moment at which its command may arrive.
    pub until: StoreTime,
}

impl Tombstone {
    /// A command may act up to and including the end of its window, so its tombstone lives as long.
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

/// One command executed on one lock.
pub struct Turn<'a> {
    /// The lock.
    pub lock: &'a mut Lock,
    /// Its partition's sequencer.
    pub sequencer: &'a mut Sequencer,
    /// Receives the effects of the command.
    pub effects: &'a mut Effects,
    /// The store's time, read once for the whole turn.
    pub now: StoreTime,
    /// The server that sent the command.
    pub replica: ReplicaId,
    /// The servers with waiters in the lock's partition.
    pub replicas: &'a Replicas,
    /// How many requests may wait for the lock.
    pub waiters_max: usize,
    /// The classic client that holds the lock outside these rules, if there is one. No lease is granted beside it.
    pub classic: Option<ClassicHold>,
}

impl Turn<'_> {
    /// Carries out a command.
    pub fn run(&mut self, command: Command) -> Outcome {
        match command {
            Command::Acquire(command) => self.acquire(command).into(),
            Command::Claim(call, candidate) => self.claim(call, candidate).into(),
            Command::GiveUp(call) => self.give_up(call).into(),
            Command::DropCall(call) => {
                self.drop_call(call);
                Outcome::Done
            }
            Command::Decline { request, attempt } => {
                self.decline_offer(request, attempt);
                Outcome::Done
            }
            Command::Release(lease_id) => self.release(lease_id).into(),
            Command::Renew { lease_id, ttl } => self.renew(lease_id, ttl, None).into(),
            Command::RenewKept(lease_id, attachment) => self.renew(lease_id, None, Some(attachment)).into(),
            Command::Attach { lease_id, attempt, attachment } => self.attach(lease_id, attempt, attachment).into(),
            Command::Detach(lease_id, attachment) => {
                self.detach(lease_id, attachment);
                Outcome::Done
            }
            Command::Disconnect(lease_id, attachment) => {
                self.disconnect(lease_id, attachment);
                Outcome::Done
            }
            Command::Convert { lease_id, token, to } => self.convert(lease_id, token, to).into(),
            Command::ForceRelease { expected, .. } => self.force_release(expected).into(),
            Command::Describe { lease_id, metadata, holder, number } => {
                self.describe(lease_id, (metadata, holder), number).into()
            }
            Command::ListWaiters { after, max } => Box::new(self.list_waiters(after, max)).into(),
            Command::View { token } => {
                Box::new(LockView { classic: self.classic, ..self.lock.view(self.now, token) }).into()
            }
        }
    }
}

impl Lock {
    /// Whether there is no state to keep.
    pub fn is_idle(&self) -> bool {
        self.lease.is_none()
            && self.queue.is_none()
            && self.ended.is_empty()
            && self.tombstones.is_empty()
            && self.delay.is_none()
            && self.shares.is_none()
    }

    /// The exclusive lease that holds it, as of the last turn.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// All its leases, as of the last turn.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.lease.iter().chain(self.shared())
    }

    /// The lease with this token, as of the last turn.
    pub fn lease_of(&self, token: FencingToken) -> Option<&Lease> {
        let exclusive = self.lease.as_ref().filter(|lease| lease.token == token);
        exclusive.or_else(|| self.shares.as_ref()?.of_token(token))
    }

    /// Whether a new request of this mode would be granted, as far as turns have been run. A repeat of a request that
    /// is queued or has a lease is none of these.
    pub fn would_grant(&self, mode: &Mode) -> bool {
        self.has_room(mode) && self.queue.is_none()
    }

    /// Whether requests are queued, also those that are skipped.
    pub fn is_waited_for(&self) -> bool {
        self.queue.is_some()
    }

    /// What a server has to understand that holds its leases, keeps its delay and its ghosts, and has its requests
    /// wait.
    pub fn needs(&self) -> Features {
        let held = self.leases().map(|lease| &lease.terms);
        let waiting = self.queue.iter().flat_map(|queue| queue.terms());
        let delayed = if self.delay.is_some() { Features::DELAYS } else { Features::NONE };
        let ghosts = if self.ghosts().next().is_some() { Features::GHOSTS } else { Features::NONE };
        held.chain(waiting).map(Features::of_terms).fold(delayed.with(ghosts), Features::with)
    }

    /// An upper bound on how many requests are queued before this one: requests between that have left still count.
    pub fn ahead(&self, request: RequestId) -> Option<u64> {
        let queue = self.queue.as_ref()?;
        let position = queue.get(request)?.position;
        Some(queue.first_position().map_or(0, |first| position.saturating_sub(first)))
    }

    /// The position of this request in the queue: it is less than that of who came later, and each keeps its own.
    pub fn queue_position(&self, request: RequestId) -> Option<u64> {
        Some(self.queue.as_ref()?.get(request)?.position)
    }

    /// The waiters that were dropped and whose positions are kept for a repeat.
    pub fn kept_queue_positions(&self) -> impl Iterator<Item = (RequestId, &Waiter)> {
        self.queue.iter().flat_map(|queue| queue.kept())
    }

    /// The requests that the lock is offered to, as of the last turn.
    pub fn offers(&self) -> impl Iterator<Item = RequestId> {
        let shared = self.shares.iter().flat_map(|shares| shares.offers());
        self.offer.iter().chain(shared).map(|offer| offer.request)
    }

    /// The attempt of a request that is queued and was skipped, because its offer lapsed or was declined or withdrawn,
    /// although calls of it may live, and the server that was offered the lock.
    pub fn skipped(&self, request: RequestId) -> Option<(u32, ReplicaId)> {
        let waiter = self.queue.as_ref()?.get(request)?;
        let is_skipped = waiter.state() != WaiterState::Offered;
        (is_skipped && waiter.binding.is_bound()).then(|| (waiter.binding.attempt(), waiter.binding.replica()))
    }

    /// When the open offer of an exclusive lease lapses, as of the last turn.
    pub fn offered_until(&self) -> Option<StoreTime> {
        self.offer.map(|offer| offer.until)
    }

    /// The request that it is offered to at `now`.
    pub fn offered_to(&self, now: StoreTime) -> Option<RequestId> {
        self.offer.filter(|offer| now < offer.until).map(|offer| offer.request)
    }

    /// The TTL of the lease that this request waits for.
    pub fn ttl_of_waiter(&self, request: RequestId) -> Option<Duration> {
        Some(self.queue.as_ref()?.get(request)?.terms.ttl)
    }

    /// When time will next change it, or allow something to be forgotten.
    pub fn next_due(&self) -> Option<StoreTime> {
        let queue = self.queue.as_ref().and_then(|queue| queue.next_due());
        let tombstones = self.tombstones.iter().map(|tombstone| tombstone.until.after(Duration::from_micros(1))).min();
        let lease = self.lease.as_ref().map(|lease| lease.expires_at);
        let offer = self.offer.map(|offer| offer.until);
        let delay = self.delay.as_ref().map(|delay| delay.until());
        let shares = self.next_due_of_shares();
        // Without an iterator over all of them: each turn asks.
        let earlier = |one: Option<StoreTime>, other: Option<StoreTime>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        earlier(
            earlier(earlier(lease, offer), earlier(delay, queue)),
            earlier(earlier(self.ended.next_due(), tombstones), shares),
        )
    }

    /// Checks the invariants that hold between turns.
    pub fn check(&self) {
        assert!(self.lease.is_none() || self.offer.is_none(), "a lock that is held is not on offer");
        let is_free = self.lease.is_none() && self.offer.is_none();
        assert!(self.delay.is_none() || is_free, "a lock that is unavailable is neither held nor on offer");
        if let Some(offer) = self.offer {
            let waiter = self.queue.as_ref().and_then(|queue| queue.get(offer.request));
            assert!(
                waiter.is_some_and(|waiter| waiter.state() == WaiterState::Offered),
                "what is offered, is offered to a waiter"
            );
        }
        if let Some(queue) = &self.queue {
            assert!(!queue.is_empty(), "an empty queue is given up");
            queue.check(self.offers().count());
        }
        self.check_shares();
        self.ended.check();
        if let (Some(lease), Some(last)) = (&self.lease, &self.last) {
            assert!(lease.token > last.token, "tokens rise from lease to lease");
        }
    }

    /// The number of waiters at `now`, without those whose calls were dropped too long ago.
    fn waiters(&self, now: StoreTime) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.len() - queue.overdue(now))
    }
}
