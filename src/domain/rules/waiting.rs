//! Commands of waiting calls: claim an offer, give up, be dropped.

use super::{Tombstone, Turn, acquire::grant_of};
use crate::domain::{
    binding::{Binding, Unbound},
    command::{Acquire, Candidate, Effect},
    ended::RequestEnd,
    ids::{Call, ReplicaId, RequestId},
    limits::{COMMAND_WINDOW, DROP_GRACE},
    outcome::AcquireOutcome,
    queue::WaiterState,
    token::FencingToken,
};

/// A waiting call that may be next, and for which its server or the leader claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The call.
    pub call: Call,
    /// The ids of its lease, if it is granted here.
    pub candidate: Candidate,
}

impl Turn<'_> {
    /// Claims what this turn, as its last effect, has offered to a request whose calls wait at `replica`: so nothing
    /// is on the way between two holders. `next` finds a call of the request that can take the lock; where it finds
    /// none, the hint to claim remains. The turn is over then.
    pub fn claim_offered(
        &mut self,
        replica: ReplicaId,
        next: impl FnOnce(RequestId, &Binding) -> Option<Next>,
    ) -> Option<(Call, AcquireOutcome)> {
        let Some(&Effect::LookAgain { replica: hinted, request, .. }) = self.effects.last() else { return None };
        // mutant: release claims for another server's call
        if hinted != replica {
            return None;
        }
        let binding = &self.lock.queue.as_ref()?.get(request)?.binding;
        let Next { call, candidate } = next(request, binding)?;
        // mutant: release claims for who is not next
        if call.request != request
            || !self.is_offered(request)
            // mutant: release claims for an overtaken call
            || unbound(binding, call.attempt).is_some()
            || self.has_tombstone(call)
        {
            return None;
        }
        // Removes the hint to claim.
        // mutant: release claims and hints
        self.effects.pop();
        // The lease is attached where the call waits, not where the command of this turn came from.
        self.replica = replica;
        Some((call, self.grant_offered(request, candidate)))
    }

    /// Asks for the outcome of a request, on behalf of a live call. Turns an offer to it into a lease; repeated, it
    /// answers the same lease. A waiter whose offer lapsed or was declined may be offered the lock again after this.
    pub(super) fn claim(&mut self, call: Call, candidate: Candidate) -> AcquireOutcome {
        let Call { request, attempt, .. } = call;
        self.apply_time();
        if self.has_tombstone(call) {
            return AcquireOutcome::Overtaken;
        }
        if let Some(outcome) = self.look_up(request, attempt) {
            return outcome;
        }
        let Some(waiter) = self.lock.queue.as_ref().and_then(|queue| queue.get(request)) else {
            return AcquireOutcome::Unknown;
        };
        if let Some(outcome) = unbound(&waiter.binding, attempt) {
            return outcome;
        }
        let exceeded = self.lock.permit_limit().filter(|limit| waiter.terms.mode.exceeds(*limit));
        if let Some(limit) = exceeded {
            // Other calls of this attempt wait for the same.
            if waiter.binding.calls().len() > 1 {
                let replica = waiter.binding.replica();
                self.effects.push(Effect::LookAgain { replica, request, attempt });
            }
            self.remove_waiter(request, RequestEnd::Refused(attempt));
            self.promote();
            return AcquireOutcome::LimitMismatch(limit);
        }
        let (state, is_left) = (waiter.state(), self.is_left(request));
        // The server of its newest call is silent, and this call of the same attempt came through another one.
        // mutant: claim does not move its request
        if is_left && let Some(queue) = &mut self.lock.queue {
            queue.move_to(request, self.replica);
        }
        // Its offer lapsed, or a server with another call of it declined the offer: this call is alive.
        // mutant: claim forgets those who missed
        if is_left || matches!(state, WaiterState::Missed(_) | WaiterState::Dropped(_)) {
            self.set_state(request, WaiterState::Waiting);
            self.promote();
        }
        if self.is_offered(request) { self.grant_offered(request, candidate) } else { AcquireOutcome::Queued }
    }

    /// Ends the wait of a call whose time is over. If the request has a lease by now, answers the lease.
    pub(super) fn give_up(&mut self, call: Call) -> AcquireOutcome {
        let Call { request, attempt, .. } = call;
        self.apply_time();
        if let Some(outcome) = self.look_up(request, attempt) {
            return outcome;
        }
        let Some(queue) = &mut self.lock.queue else { return AcquireOutcome::Unknown };
        let Some(waiter) = queue.get(request) else { return AcquireOutcome::Unknown };
        if let Some(outcome) = unbound(&waiter.binding, attempt) {
            return outcome;
        }
        if queue.unbind(call) != Some(Unbound::Last) {
            return AcquireOutcome::Shared;
        }
        self.remove_waiter(request, RequestEnd::TimedOut);
        self.promote();
        AcquireOutcome::TimedOut(self.contention())
    }

    /// Cleans up after a call that was dropped (cancelled, reset, deadline over: a server cannot tell which). When it
    /// was the last one bound, the queue entry is skipped but kept for [`DROP_GRACE`], an offer is declined, an unheard
    /// lease is cut to end then. A call that is not bound leaves a tombstone: its own command may have been overtaken
    /// on the way. So it may run any number of times.
    pub(super) fn drop_call(&mut self, call: Call) {
        self.apply_time();
        let request = call.request;
        let bound = if let Some(lease) = self.lock.lease.as_mut().filter(|lease| lease.request == request) {
            let unbound = lease.binding.unbind(call);
            // mutant: cancel frees a retried grant
            if unbound == Unbound::Last {
                lease.cut_short(self.now);
            }
            Some((unbound, lease.binding.attempt()))
        } else if let Some(token) = self.share_of(request) {
            let now = self.now;
            self.change_share_of(token, |lease| {
                let unbound = lease.binding.unbind(call);
                if unbound == Unbound::Last {
                    lease.cut_short(now);
                }
                (unbound, lease.binding.attempt())
            })
        } else if let Some(queue) = &mut self.lock.queue {
            let unbound = queue.unbind(call);
            let attempt = queue.get(request).map(|waiter| waiter.binding.attempt());
            if unbound == Some(Unbound::Last) {
                // mutant: dropped waiter stays in line
                self.set_state(request, WaiterState::Dropped(self.now.after(DROP_GRACE)));
                // mutant: drop keeps its offer
                self.decline(request);
                self.promote();
            }
            unbound.zip(attempt)
        } else {
            None
        };
        let may_come = match bound {
            // A request that is bound to a newer attempt ignores the older one anyway.
            Some((unbound, attempt)) => unbound == Unbound::NotBound && attempt <= call.attempt,
            None => self.lock.ended(request, self.now).is_none(),
        };
        // mutant: no mark
        if may_come {
            // The call's own command was sent before its cleanup, so it comes by then or is refused.
            let until = self.now.after(COMMAND_WINDOW);
            self.lock.tombstones.push(Tombstone { call, until });
        }
    }

    /// Queues a request whose call was dropped at another leader: its position is kept for [`DROP_GRACE`] from now, as
    /// if the call had been queued and dropped here. Nobody would hear of a grant, so none is made. Changes nothing if
    /// the request is known: then it has gone on since.
    pub fn keep_queue_position(&mut self, Acquire { call, terms, .. }: Acquire) -> AcquireOutcome {
        self.apply_time();
        let request = call.request;
        let is_queued = self.lock.queue.as_ref().is_some_and(|queue| queue.get(request).is_some());
        let is_known = self.look_up(request, call.attempt).or_else(|| self.acquire_ended(call, &terms)).is_some();
        // mutant: kept place revives an ended request
        if is_queued || is_known || self.has_tombstone(call) {
            return AcquireOutcome::Overtaken;
        }
        if let Some(refused) = self.agree(&terms.mode) {
            return refused;
        }
        if self.lock.waiters(self.now) >= self.waiters_max {
            return AcquireOutcome::QueueFull;
        }
        self.queue(call, terms);
        if let Some(queue) = &mut self.lock.queue {
            queue.unbind(call);
        }
        // mutant: kept place is offered the lock
        self.set_state(request, WaiterState::Dropped(self.now.after(DROP_GRACE)));
        AcquireOutcome::Queued
    }

    /// Declines an offer, on behalf of the server that it was made to and that has no call of the request that can take
    /// it. Calls that are still bound belong to another server, or their cleanup was lost. So the position is skipped,
    /// and kept for [`DROP_GRACE`], in which a live call claims.
    pub(super) fn decline_offer(&mut self, request: RequestId, attempt: u32) {
        self.apply_time();
        let waiter = self.lock.queue.as_ref().and_then(|queue| queue.get(request));
        let binding = waiter.map(|waiter| &waiter.binding);
        let is_ours = binding.is_some_and(|it| it.replica() == self.replica && it.attempt() <= attempt);
        if is_ours && self.is_offered(request) {
            self.set_state(request, WaiterState::Dropped(self.now.after(DROP_GRACE)));
            self.decline(request);
            self.promote();
        }
    }

    /// The token of the shared lease of this request.
    fn share_of(&self, request: RequestId) -> Option<FencingToken> {
        self.lock.shares.as_ref()?.of_request(request).map(|lease| lease.token)
    }

    /// The known outcome of a request: its end, or its lease.
    fn look_up(&self, request: RequestId, attempt: u32) -> Option<AcquireOutcome> {
        if let Some(ended) = self.lock.ended(request, self.now) {
            return Some(match ended.end {
                RequestEnd::TimedOut => AcquireOutcome::TimedOut(self.contention()),
                RequestEnd::Lease(_) | RequestEnd::Abandoned | RequestEnd::Refused(_) => AcquireOutcome::Ended,
            });
        }
        let exclusive = self.lock.lease.as_ref().filter(|lease| lease.request == request);
        let lease = exclusive.or_else(|| self.lock.shares.as_ref()?.of_request(request))?;
        if lease.expires_at <= self.now {
            return Some(AcquireOutcome::Ended);
        }
        Some(unbound(&lease.binding, attempt).unwrap_or_else(|| AcquireOutcome::Granted(grant_of(lease, self.now))))
    }
}

/// What to answer a call that is not bound to its request.
fn unbound(binding: &Binding, attempt: u32) -> Option<AcquireOutcome> {
    if binding.attempt() < attempt {
        // Its Acquire is not known, so the store forgot it. The cleanup of an older attempt could revoke what this
        // attempt is granted.
        Some(AcquireOutcome::Unknown)
    } else if attempt < binding.attempt()
        // mutant: dropped claim comes back
        || !binding.is_bound()
    {
        // Dropped is final: a command that was on its way when its call was dropped must not revive it.
        Some(AcquireOutcome::Overtaken)
    } else {
        None
    }
}
