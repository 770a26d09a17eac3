//! Delays: a lock stays unavailable after a lease, for `min_hold` or `lock_delay`. After a lease beside others, its
//! place does ([`super::Ghost`]).
//!
//! `min_hold` is for jobs that several machines start by clocks that differ (ShedLock's `lockAtLeastFor`): a job of
//! 10 ms would else run on two of them. `lock_delay` is Chubby's and Consul's: a holder that did not end its lease may
//! still be working, in a store that checks no tokens. There it stands until its time is over, even if the holder comes
//! back (hashicorp/consul#430); here the holder's late Release ends it.

use super::{LastLease, Lock, Turn};
use crate::domain::{
    ended::{Ended, EndedLease, RequestEnd},
    ids::{LeaseId, RequestId},
    lease::{Delays, Lease, LeaseEnd},
    name::Holder,
    outcome::DelayView,
    time::StoreTime,
    token::FencingToken,
};

/// The time after a lease in which the lock is granted to nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The request of the lease, its lease id, and how and when it ended. The request is remembered as ended for as
    /// long as the delay lasts.
    pub ended: Ended,
    /// Its fencing token.
    pub token: FencingToken,
    /// Its holder's label.
    pub holder: Holder,
    /// What its request asked for.
    pub delays: Delays,
    /// When its `min_hold` is over.
    pub held_until: StoreTime,
    /// When its `lock_delay` is over; no later than its end if there is none.
    pub delayed_until: StoreTime,
}

impl Delay {
    /// The delay after a lease that ends in this way, and is the last one then; `None` if its place is free at once.
    pub(super) fn after(lease: &Lease, end: LeaseEnd, last: &LastLease) -> Option<Self> {
        let (delays, at) = (*lease.terms.delays()?, last.at);
        // The clock may have stepped back since the grant.
        let held_until = lease.granted_at.min(at).after(delays.min_hold);
        // mutant: release leaves a lock_delay
        let delayed_until = if end == LeaseEnd::Released { at } else { at.after(delays.lock_delay) };
        if held_until.max(delayed_until) <= at {
            return None;
        }
        let (token, holder, ended) = (lease.token, lease.terms.holder.clone(), ended(lease, end, last));
        Some(Self { ended, token, holder, delays, held_until, delayed_until })
    }

    /// The delay after an exclusive lease.
    fn after_exclusive(lease: &Lease, end: LeaseEnd, at: StoreTime) -> Option<Box<Self>> {
        Self::after(lease, end, &LastLease { token: lease.token, end, at }).map(Box::new)
    }

    /// When the lock, or the place, is available.
    pub fn until(&self) -> StoreTime {
        self.held_until.max(self.delayed_until)
    }

    /// The same, with what the next holder of the lock hears of it.
    #[must_use]
    pub fn handing_on(mut self, handed_on: LeaseEnd) -> Self {
        if let RequestEnd::Lease(it) = &mut self.ended.end {
            it.handed_on = handed_on;
        }
        self
    }

    fn is_of(&self, lease_id: LeaseId) -> bool {
        self.lease().is_some_and(|it| it.lease_id == lease_id)
    }

    /// The lease before it.
    pub fn lease(&self) -> Option<EndedLease> {
        if let RequestEnd::Lease(it) = self.ended.end { Some(it) } else { None }
    }

    /// How its lease ended.
    fn end(&self) -> Option<LeaseEnd> {
        self.lease().map(|it| it.end)
    }

    pub(super) fn last(&self) -> Option<LastLease> {
        Some(LastLease { token: self.token, end: self.end()?, at: self.ended.at })
    }

    /// Repairs its times after the clock stepped back.
    pub(super) fn heal(&mut self, now: StoreTime) {
        self.ended.at = self.ended.at.min(now);
        self.held_until = self.held_until.min(now.after(self.delays.min_hold));
        self.delayed_until = self.delayed_until.min(now.after(self.delays.lock_delay));
    }

    pub(super) fn view(&self, now: StoreTime) -> DelayView {
        DelayView { holder: self.holder.clone(), token: self.token, left: self.until().since(now) }
    }
}

impl Lock {
    /// The delay after its last lease, as of the last turn.
    pub fn delay(&self) -> Option<&Delay> {
        self.delay.as_deref()
    }

    /// The delay after its last lease as seen at `now`, also after a lease whose time ran out unnoticed.
    pub(super) fn delay_at(&self, now: StoreTime) -> Option<Box<Delay>> {
        let unnoticed = || self.lease.as_ref().filter(|lease| lease.expires_at <= now);
        let after_unnoticed =
            || unnoticed().and_then(|it| Delay::after_exclusive(it, LeaseEnd::Expired, it.expires_at));
        let mut delay = self.delay.clone().or_else(after_unnoticed)?;
        delay.heal(now);
        Some(delay)
    }

    /// What is remembered of this request: its end, or that it was refused.
    pub(super) fn past(&self, request: RequestId, now: StoreTime) -> Option<&Ended> {
        let of_delay = || self.delay.as_ref().map(|delay| &delay.ended).filter(|ended| ended.request == request);
        let of_ghost = || self.shares.as_ref()?.ghosts().of_request(request).map(|ghost| &ghost.delay.ended);
        self.ended.past(request, now).or_else(of_delay).or_else(of_ghost)
    }

    /// The end of this request, if it is remembered.
    pub(super) fn ended(&self, request: RequestId, now: StoreTime) -> Option<&Ended> {
        self.past(request, now).filter(|ended| !matches!(ended.end, RequestEnd::Refused(_)))
    }

    /// The end of this lease, if it is remembered.
    pub(super) fn ended_lease(&self, lease_id: LeaseId, now: StoreTime) -> Option<LeaseEnd> {
        let of_delay = || self.delay.as_ref().filter(|delay| delay.is_of(lease_id)).and_then(|delay| delay.end());
        let of_ghost = || self.shares.as_ref()?.ghosts().of_lease(lease_id)?.delay.end();
        self.ended.lease(lease_id, now).or_else(of_delay).or_else(of_ghost)
    }
}

impl Turn<'_> {
    /// Ends the lease that holds the lock, and begins the delay after it. The caller promotes.
    pub(super) fn end_lease(&mut self, end: LeaseEnd, at: StoreTime) {
        self.lock.delay = self.lock.lease.as_ref().and_then(|lease| Delay::after_exclusive(lease, end, at));
        self.end_lease_at_once(end, at);
    }

    /// Ends a delay whose time is over.
    pub(super) fn apply_time_to_delay(&mut self) {
        let over = self.lock.delay.as_ref().map(|delay| delay.until()).filter(|until| *until <= self.now);
        if let Some(until) = over {
            // Earlier ends first, as for an expiry.
            self.abandon(until);
            self.end_delay(until);
        }
    }

    /// The holder of a lease that ended says that it has stopped: ends its `lock_delay`. A `min_hold` stands.
    pub(super) fn end_lock_delay(&mut self, lease_id: LeaseId) {
        let Some(delay) = self.lock.delay.as_mut().filter(|delay| delay.is_of(lease_id)) else {
            return self.end_lock_delay_of_ghost(lease_id);
        };
        // mutant: late release ends no lock_delay
        delay.delayed_until = delay.delayed_until.min(self.now);
        // mutant: late release ends a min_hold
        if delay.until() <= self.now {
            self.end_delay(self.now);
            self.promote();
        }
    }

    /// Ends the delay. The end of its lease is remembered from now on as if it had ended now: the next holder is to
    /// hear of it. The caller promotes.
    pub(super) fn end_delay(&mut self, at: StoreTime) {
        let Some(delay) = self.lock.delay.take() else { return };
        // mutant: delay forgets how its lease ended
        self.lock.ended.push(Ended { at, ..delay.ended });
        self.lock.last = delay.last().map(|last| LastLease { at, ..last });
    }
}

/// What is remembered of the request of a lease that ends in this way, and is the last one then.
pub(super) fn ended(lease: &Lease, end: LeaseEnd, last: &LastLease) -> Ended {
    let at = last.at;
    let end = EndedLease { lease_id: lease.lease_id, token: Some(last.token), end, handed_on: last.end };
    let end = RequestEnd::Lease(end);
    Ended { request: lease.request, fingerprint: lease.terms.fingerprint, end, at }
}
