//! What a waiting call does besides waiting: claim its offer, give up, or be dropped.

use super::{Candidate, Mark, Turn, acquire::grant_of};
use crate::domain::{
    ended::RequestEnd,
    ids::{LeaseId, RequestId},
    lease::Binding,
    limits::DROP_GRACE,
    outcome::{AcquireOutcome, Polled, ReleaseOutcome},
    queue::Standing,
};

/// A call that waits at the replica that sends a command, and that it takes to be next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Its request.
    pub request: RequestId,
    /// Which transmission of it.
    pub attempt: u32,
    /// The ids of its lease, if it is granted here.
    pub candidate: Candidate,
}

impl Turn<'_> {
    /// Gives a lease back and claims for a call that waits at the same replica: if it is next, it has the lock at once. The same as a release that
    /// is followed by that claim, in one step; where the call is not next, only the release.
    pub fn release_to(&mut self, lease_id: LeaseId, next: Next) -> (ReleaseOutcome, Option<AcquireOutcome>) {
        let released = self.release(lease_id);
        let claimed = if released == ReleaseOutcome::Released { self.claim_at_once(next) } else { None };
        (released, claimed)
    }

    fn claim_at_once(&mut self, Next { request, attempt, candidate }: Next) -> Option<AcquireOutcome> {
        if self.not_after < self.now
            || self.sequencer.check(self.incarnation, self.present).is_err()
            || !self.is_offered(request)
        {
            return None;
        }
        let binding = self.lock.queue.as_ref()?.get(request)?.binding;
        let is_here = binding.replica() == self.replica && unbound(binding, attempt).is_none();
        if !is_here || self.is_marked(request, attempt) {
            return None;
        }
        // The hint to claim, which comes last of what the release set off.
        self.effects.pop();
        Some(self.grant_offered(request, candidate))
    }

    /// Asks what became of the request, on behalf of a call that is alive. Turns an offer to it into a lease; repeated, it answers
    /// the same lease. A waiter whose offer lapsed, or was declined, shows life by this and stands in line again.
    pub fn claim(&mut self, request: RequestId, attempt: u32, candidate: Candidate) -> AcquireOutcome {
        if self.not_after < self.now {
            return AcquireOutcome::TooLate(self.now);
        }
        if self.sequencer.check(self.incarnation, self.present).is_err() {
            return AcquireOutcome::LeftBehind;
        }
        self.settle();
        if self.is_marked(request, attempt) {
            return AcquireOutcome::Overtaken;
        }
        if let Some(outcome) = self.look_up(request, attempt) {
            return outcome;
        }
        let Some(waiter) = self.lock.queue.as_ref().and_then(|queue| queue.get(request)) else {
            return AcquireOutcome::Unknown;
        };
        if let Some(outcome) = unbound(waiter.binding, attempt) {
            return outcome;
        }
        // Its offer lapsed, or a replica that had another call of it declined it: this call is alive.
        if matches!(waiter.standing(), Standing::Missed | Standing::Dropped(_)) {
            self.set_standing(request, Standing::InLine);
            self.promote();
        }
        if self.is_offered(request) { self.grant_offered(request, candidate) } else { AcquireOutcome::Queued }
    }

    /// What a replica asks on its own, for all of its waiters: a heartbeat, and the net under wake-ups that got lost. Those of them that missed
    /// an offer stand in line again, since the replica that carries their calls is alive.
    pub fn poll(&mut self) -> Polled {
        self.hear_of_replica();
        self.settle();
        while let Some(request) = self.lock.queue.as_ref().and_then(|queue| queue.first_missed(self.replica)) {
            self.set_standing(request, Standing::InLine);
        }
        self.promote();
        let queue = self.lock.queue.as_ref();
        let offered = self.lock.offer.and_then(|offer| {
            let binding = queue?.get(offer.request)?.binding;
            (binding.replica() == self.replica).then_some((offer.request, binding.attempt()))
        });
        Polled {
            offered,
            waiters: queue.map_or(0, |queue| queue.of_replica(self.replica)),
            first_place: queue.and_then(|queue| queue.first_place()),
        }
    }

    /// Ends the wait of a call whose time is over. Answers the lease if the request has one.
    pub fn give_up(&mut self, request: RequestId, attempt: u32) -> AcquireOutcome {
        self.settle();
        if let Some(outcome) = self.look_up(request, attempt) {
            return outcome;
        }
        let Some(queue) = &mut self.lock.queue else { return AcquireOutcome::Unknown };
        let Some(waiter) = queue.get(request) else { return AcquireOutcome::Unknown };
        if let Some(outcome) = unbound(waiter.binding, attempt) {
            return outcome;
        }
        if !queue.unbind(request, attempt) {
            return AcquireOutcome::Shared;
        }
        self.remove_waiter(request, RequestEnd::TimedOut);
        self.promote();
        AcquireOutcome::TimedOut(self.contention())
    }

    /// Cleans up after a call that was dropped (cancelled, reset, deadline over: a server cannot tell which). Acts only while no newer
    /// attempt is bound: the queue entry is skipped but kept for [`DROP_GRACE`], an offer is declined, an unheard lease is
    /// cut to end then. Finding nothing, it leaves a mark: its own command may have been overtaken on the way. Finding only a call that came
    /// through another replica, it does nothing.
    pub fn drop_call(&mut self, request: RequestId, attempt: u32) {
        self.settle();
        if let Some(lease) = self.lock.lease.as_mut().filter(|lease| lease.request == request) {
            if attempt <= lease.binding.attempt() {
                if lease.binding.unbind_dropped(attempt, self.replica) {
                    lease.cut_short(self.now);
                }
                return;
            }
        } else if let Some(queue) = self.lock.queue.as_mut().filter(|queue| queue.get(request).is_some()) {
            if queue.get(request).is_some_and(|waiter| attempt <= waiter.binding.attempt()) {
                if queue.unbind_dropped(request, attempt, self.replica) {
                    self.set_standing(request, Standing::Dropped(self.now.after(DROP_GRACE)));
                    self.decline(request);
                    self.promote();
                }
                return;
            }
        } else if self.lock.ended.request(request, self.now).is_some() {
            return;
        }
        if self.now <= self.not_after {
            self.lock.marks.push(Mark { request, attempt, until: self.not_after });
        }
    }

    /// Declines an offer, on behalf of the replica that it was made to and that has no call of the request. What else is bound to it is another
    /// replica's call, or one whose clean-up got lost: its place is skipped and kept for [`DROP_GRACE`], within which a call that is alive claims.
    pub fn decline_offer(&mut self, request: RequestId, attempt: u32) {
        self.settle();
        let binding = self.lock.queue.as_ref().and_then(|queue| queue.get(request)).map(|waiter| waiter.binding);
        let is_ours = binding.is_some_and(|it| it.replica() == self.replica && it.attempt() <= attempt);
        if is_ours && self.is_offered(request) {
            self.set_standing(request, Standing::Dropped(self.now.after(DROP_GRACE)));
            self.decline(request);
            self.promote();
        }
    }

    /// What is already settled about a request: its end, or its lease.
    fn look_up(&self, request: RequestId, attempt: u32) -> Option<AcquireOutcome> {
        if let Some(ended) = self.lock.ended.request(request, self.now) {
            return Some(match ended.end {
                RequestEnd::TimedOut => AcquireOutcome::TimedOut(self.contention()),
                RequestEnd::Lease(..) | RequestEnd::Abandoned | RequestEnd::Refused(_) => AcquireOutcome::Ended,
            });
        }
        let lease = self.lock.lease.as_ref().filter(|lease| lease.request == request)?;
        Some(unbound(lease.binding, attempt).unwrap_or_else(|| AcquireOutcome::Granted(grant_of(lease, self.now))))
    }
}

/// What to answer a call that is not bound to its request.
fn unbound(binding: Binding, attempt: u32) -> Option<AcquireOutcome> {
    if binding.attempt() < attempt {
        // Its Acquire is not known, so the store forgot it. The clean-up of an older attempt could take away again what this one is given.
        Some(AcquireOutcome::Unknown)
    } else if attempt < binding.attempt() || !binding.is_bound() {
        // Dropped is final: what was on its way when its call was dropped must not bring it back.
        Some(AcquireOutcome::Overtaken)
    } else {
        None
    }
}
