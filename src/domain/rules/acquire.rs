//! Acquire: a new request, or another transmission of a known one.

use super::Turn;
use crate::domain::{
    binding::{Binding, Bound},
    command::{Acquire, Candidate, Effect},
    ended::{Ended, RequestEnd},
    ids::{Call, RequestId},
    lease::{Lease, Terms},
    mode::{Mode, PermitLimit},
    outcome::{AcquireOutcome, Grant},
    queue::{Queue, WaiterState},
    time::StoreTime,
};

impl Turn<'_> {
    /// Grants the lock, queues the request, or refuses it. A repeat gets the outcome that the request has.
    pub(super) fn acquire(&mut self, command: Acquire) -> AcquireOutcome {
        self.apply_time();
        let Acquire { call, ref terms, .. } = command;
        // mutant: mark ignored
        if self.has_tombstone(call) {
            return AcquireOutcome::Overtaken;
        }
        // mutant: ended request acquires again
        if let Some(outcome) = self.acquire_ended(call, terms) {
            return outcome;
        }
        if let Some(outcome) = self.acquire_held(call, terms) {
            return outcome;
        }
        if let Some(outcome) = self.acquire_queued(&command) {
            return outcome;
        }
        self.acquire_new(command)
    }

    /// The request has ended, so no transmission revives it. Nor does an attempt older than one that was refused:
    /// nobody listens to it any more.
    pub(super) fn acquire_ended(&self, call: Call, terms: &Terms) -> Option<AcquireOutcome> {
        let past = self.lock.past(call.request, self.now)?;
        match past.end {
            // mutant: refused try comes later
            RequestEnd::Refused(refused) => (call.attempt < refused).then_some(AcquireOutcome::Overtaken),
            _ if past.fingerprint != terms.fingerprint => Some(AcquireOutcome::OtherTerms),
            RequestEnd::TimedOut => Some(AcquireOutcome::TimedOut(self.contention())),
            RequestEnd::Lease(_) | RequestEnd::Abandoned => Some(AcquireOutcome::Ended),
        }
    }

    /// The request holds the lock: the reply was lost, or is on its way.
    fn acquire_held(&mut self, call: Call, terms: &Terms) -> Option<AcquireOutcome> {
        if self.lock.shares.is_some() {
            return self.acquire_shared(call, terms);
        }
        let now = self.now;
        let lease = self.lock.lease.as_mut().filter(|lease| lease.request == call.request)?;
        // mutant: other terms
        if lease.terms.fingerprint != terms.fingerprint {
            return Some(AcquireOutcome::OtherTerms);
        }
        let bound = lease.binding.bind(call, self.replica);
        if bound == Bound::Overtaken {
            return Some(AcquireOutcome::Overtaken);
        }
        // mutant: retry does not re-arm
        lease.rearm(now);
        let grant = grant_of(lease, now);
        self.wake_overtaken(call.request, bound);
        Some(AcquireOutcome::Granted(grant))
    }

    /// The request has a shared lease.
    fn acquire_shared(&mut self, call: Call, terms: &Terms) -> Option<AcquireOutcome> {
        let (now, replica) = (self.now, self.replica);
        let lease = self.lock.shares.as_ref()?.of_request(call.request)?;
        if lease.terms.fingerprint != terms.fingerprint {
            return Some(AcquireOutcome::OtherTerms);
        }
        if lease.expires_at <= now {
            return Some(AcquireOutcome::Ended);
        }
        let (bound, grant) = self.change_share_of(lease.token, |lease| {
            let bound = lease.binding.bind(call, replica);
            if bound != Bound::Overtaken {
                lease.rearm(now);
            }
            (bound, grant_of(lease, now))
        })?;
        if bound == Bound::Overtaken {
            return Some(AcquireOutcome::Overtaken);
        }
        self.wake_overtaken(call.request, bound);
        Some(AcquireOutcome::Granted(grant))
    }

    /// The request is queued: binds this call to it. The request keeps its position.
    fn acquire_queued(&mut self, command: &Acquire) -> Option<AcquireOutcome> {
        let Call { request, attempt, .. } = command.call;
        let waiter = self.lock.queue.as_ref()?.get(request)?;
        if waiter.terms.fingerprint != command.terms.fingerprint {
            return Some(AcquireOutcome::OtherTerms);
        }
        let state = waiter.state();
        let bound = self.lock.queue.as_mut()?.bind(command.call, self.replica)?;
        if bound == Bound::Overtaken {
            return Some(AcquireOutcome::Overtaken);
        }
        if !matches!(state, WaiterState::Waiting | WaiterState::Offered) {
            self.set_state(request, WaiterState::Waiting);
            self.promote();
        }
        self.wake_overtaken(request, bound);
        if self.is_offered(request) {
            return Some(self.grant_offered(request, command.candidate));
        }
        if command.wait {
            return Some(AcquireOutcome::Queued);
        }
        // A try by a queued request ends its wait: this is how a caller leaves the queue and learns the outcome. The
        // end is remembered, or a late transmission of an older attempt would queue again.
        if bound == Bound::Yes && !matches!(state, WaiterState::Dropped(_)) {
            // Other calls of this attempt may still wait: they learn of the end now, not when their time is over.
            self.effects.push(Effect::LookAgain { replica: self.replica, request, attempt });
        }
        self.remove_waiter(request, RequestEnd::TimedOut);
        self.promote();
        Some(AcquireOutcome::TimedOut(self.contention()))
    }

    fn acquire_new(&mut self, command: Acquire) -> AcquireOutcome {
        let Acquire { call, terms, wait, candidate } = command;
        if let Some(refused) = self.agree(&terms.mode) {
            self.remember_refusal(call, &terms);
            return refused;
        }
        // A free lock has no waiter that could be served; skipped waiters do not block a grant.
        if self.lock.lease.is_none()
            // mutant: new request overtakes the line
            && self.lock.has_room(&terms.mode)
            // mutant: grant beside a classic client
            && self.classic.is_none()
            // mutant: reader overtakes writer
            && !(self.lock.shares.is_some() && self.is_waited_for())
        {
            let limit = self.lock.permit_limit();
            return self.grant(call.request, Binding::first(call, self.replica), (terms, limit), candidate);
        }
        // mutant: waits beyond max_waiters
        if !wait || self.is_waited_for_by_enough(&terms) {
            self.remember_refusal(call, &terms);
            return AcquireOutcome::Contended(self.contention());
        }
        // mutant: queue without a bound
        if self.lock.waiters(self.now) >= self.waiters_max {
            return AcquireOutcome::QueueFull;
        }
        self.queue(call, terms);
        self.tell_wanted();
        AcquireOutcome::Queued
    }

    /// An older attempt may still arrive. If it were granted, nobody would hear of the lease.
    fn remember_refusal(&mut self, Call { request, attempt, .. }: Call, terms: &Terms) {
        if attempt > 1 {
            let end = RequestEnd::Refused(attempt);
            self.lock.ended.push(Ended { request, fingerprint: terms.fingerprint, end, at: self.now });
        }
    }

    /// Queues a new request.
    pub(super) fn queue(&mut self, call: Call, terms: Terms) {
        let asked = terms.mode.permits().map(|permits| permits.limit);
        let limit = asked.map(|asked| self.lock.permit_limit().map_or(asked, |limit| limit.newer(asked)));
        let queue = self.lock.queue.get_or_insert_with(Box::<Queue>::default);
        queue.push(call, self.replica, terms, self.now);
        if let Some(limit) = limit {
            queue.agree(limit);
        }
    }

    /// Whether as many requests wait as one may find that would wait, too. Those of a server that is gone do not count:
    /// they are passed over, and leave the queue only later.
    fn is_waited_for_by_enough(&self, terms: &Terms) -> bool {
        let max = terms.extra.as_ref().map_or(0, |extra| extra.waiters_max);
        if max == 0 {
            return false;
        }
        let alive = |replica| self.replicas.is_alive(replica, self.now);
        // mutant: the dead count for max_waiters
        let dead = self.lock.queue.as_ref().map_or(0, |queue| queue.at_dead_servers(alive));
        usize::try_from(max).is_ok_and(|max| max <= self.lock.waiters(self.now).saturating_sub(dead))
    }

    /// Whether a live waiter is queued.
    fn is_waited_for(&self) -> bool {
        let alive = |replica| self.replicas.is_alive(replica, self.now);
        self.lock.queue.as_ref().is_some_and(|queue| queue.first(alive).is_some())
    }

    /// Whether the lock is offered to this request.
    pub(super) fn is_offered(&self, request: RequestId) -> bool {
        self.lock.offers().any(|offered| offered == request)
    }

    /// Turns the offer to this request into a lease: draws the token and starts the TTL.
    pub(super) fn grant_offered(&mut self, request: RequestId, candidate: Candidate) -> AcquireOutcome {
        // The last one that waits for a semaphore takes its limit along.
        let limit = self.lock.permit_limit();
        let Some(waiter) = self.lock.queue.as_mut().and_then(|queue| queue.remove(request)) else {
            return AcquireOutcome::Unknown;
        };
        self.decline(request);
        self.give_up_empty_queue();
        self.grant(request, waiter.binding, (waiter.terms, limit), candidate)
    }

    /// `limit` is the one of the semaphore in force, if there is one.
    fn grant(
        &mut self,
        request: RequestId,
        binding: Binding,
        (terms, limit): (Terms, Option<PermitLimit>),
        candidate: Candidate,
    ) -> AcquireOutcome {
        assert!(self.lock.has_room(&terms.mode), "only a free lock is granted");
        let Ok(token) = self.sequencer.draw(terms.min_token) else {
            self.promote();
            return AcquireOutcome::TokensExhausted;
        };
        let lease = Lease {
            request,
            binding,
            lease_id: candidate.lease_id,
            grant_id: candidate.grant_id,
            token,
            granted_at: self.now,
            expires_at: terms.end(self.now, self.now, terms.ttl),
            terms,
            previous_end: self.lock.last.map(|last| last.end),
            attachment: candidate.attachment,
            attachment_replica: self.replica,
            attachment_attempt: u32::from(candidate.attachment.is_some()),
            unheard: false,
            heard: false,
            told_wanted: false,
        };
        let now = self.now;
        let lease = match lease.terms.mode {
            Mode::Exclusive => self.lock.lease.insert(lease),
            Mode::Shared | Mode::Semaphore(_) => self.grant_shared(lease, limit),
        };
        let grant = grant_of(lease, now);
        self.effects.push(Effect::Granted(token));
        self.tell_wanted();
        AcquireOutcome::Granted(grant)
    }

    fn wake_overtaken(&mut self, request: RequestId, bound: Bound) {
        if let Bound::TookOver(attempt, replica) = bound {
            self.effects.push(Effect::LookAgain { replica, request, attempt });
        }
    }

    pub(super) fn has_tombstone(&self, call: Call) -> bool {
        self.lock.tombstones.iter().any(|tombstone| tombstone.call == call && tombstone.is_live(self.now))
    }
}

pub(super) fn grant_of(lease: &Lease, now: StoreTime) -> Grant {
    Grant {
        lease_id: lease.lease_id,
        grant_id: lease.grant_id,
        token: lease.token,
        // mutant: replay answers the full TTL
        left: lease.left(now),
        previous_end: lease.previous_end,
        slot: lease.terms.mode.permits().and_then(|permits| permits.slot),
        mode: lease.terms.mode.name(),
    }
}
