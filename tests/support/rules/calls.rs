//! The part of the oracle for calls that request the lock: acquires, claims, timeouts and drops.

use super::{
    Step,
    oracle::{Actual, Oracle},
    state::{GRACE, Holding, How, OracleEffect, Past, State, WINDOW, Waiting},
};
use fencepost::testing::domain::{
    command::Outcome,
    outcome::{AcquireOutcome, Grant},
    time::StoreTime,
};

impl Oracle {
    pub(super) fn expect_of_call(
        &mut self,
        step: Step,
        actual: &Actual<'_>,
        effects: &mut Vec<OracleEffect>,
    ) -> Outcome {
        let now = actual.now;
        Outcome::Acquire(match step {
            Step::AcquireOther { request, attempt } => self.acquire_other(request, attempt),
            Step::Acquire { request, attempt, copy, wait, lease } => {
                self.acquire((request, attempt, copy), wait, lease, actual, effects)
            }
            Step::Keep { request, attempt } => self.keep(request, attempt, actual, effects),
            Step::Claim { request, attempt, copy, lease } => {
                self.claim((request, attempt, copy), lease, actual, effects)
            }
            Step::GiveUp { request, attempt, copy } => self.give_up((request, attempt, copy), now, effects),
            Step::Drop { request, attempt, copy } => {
                self.drop_call((request, attempt, copy), now, effects);
                return Outcome::Done;
            }
            _ => return Outcome::Done,
        })
    }

    fn acquire(
        &mut self,
        (request, attempt, copy): (u8, u32, u8),
        wait: bool,
        lease: u32,
        actual: &Actual<'_>,
        effects: &mut Vec<OracleEffect>,
    ) -> AcquireOutcome {
        let now = actual.now;
        if self.has_tombstone(request, attempt, copy) {
            return AcquireOutcome::Overtaken;
        }
        if let Some(outcome) = self.outcome_of_past(request, now) {
            return outcome;
        }
        if self.is_older_than_refused(request, attempt) {
            return AcquireOutcome::Overtaken;
        }
        if let Some(held) = self.held.iter_mut().find(|held| held.request == request) {
            if attempt < held.attempt {
                return AcquireOutcome::Overtaken;
            }
            effects.extend(
                bind(&mut held.attempt, &mut held.calls, attempt, copy).map(|it| OracleEffect::LookAgain(request, it)),
            );
            if held.cut {
                held.extend(now, held.ttl);
            }
            return AcquireOutcome::Granted(held.grant(now));
        }
        if let Some(it) = self.queue.iter_mut().find(|it| it.request == request) {
            if attempt < it.attempt {
                return AcquireOutcome::Overtaken;
            }
            let has_other_calls = attempt == it.attempt && !it.calls.is_empty();
            effects.extend(
                bind(&mut it.attempt, &mut it.calls, attempt, copy).map(|it| OracleEffect::LookAgain(request, it)),
            );
            it.state = State::Live;
            self.offer_to_next(now, effects);
            if self.is_offered(request) {
                effects.retain(|it| *it != OracleEffect::LookAgain(request, attempt));
                return self.grant_offer(request, lease, actual, effects);
            }
            // If it asks for too much by now, it is told to claim.
            if wait {
                return AcquireOutcome::Queued;
            }
            if has_other_calls {
                effects.push(OracleEffect::LookAgain(request, attempt));
            }
            return self.time_out(request, now, effects);
        }
        if let Err(refusal) = self.agree(request, now, effects) {
            self.remember_refused(request, attempt, now);
            return refusal;
        }
        // Nobody passes a waiter that can be served, or will be: not even a reader that would fit beside the holders.
        if self.fits(request) && self.queue.iter().all(|it| it.state != State::Live || self.is_offered(it.request)) {
            return self.grant(request, attempt, vec![copy], lease, actual, effects);
        }
        if !wait {
            self.remember_refused(request, attempt, now);
            return AcquireOutcome::Contended(self.contention(now));
        }
        if self.queue.len() >= actual.waiters_max {
            return AcquireOutcome::QueueFull;
        }
        self.queue.push(Waiting { request, attempt, calls: vec![copy], state: State::Live });
        AcquireOutcome::Queued
    }

    /// Keeps the queue position of a dropped call, unless anything is known of its request.
    fn keep(
        &mut self,
        request: u8,
        attempt: u32,
        actual: &Actual<'_>,
        effects: &mut Vec<OracleEffect>,
    ) -> AcquireOutcome {
        let now = actual.now;
        let is_late = self.has_tombstone(request, attempt, 0) || self.is_older_than_refused(request, attempt);
        if is_late || self.knows(request, now) {
            return AcquireOutcome::Overtaken;
        }
        // The call was dropped, so no older one is on its way: a refusal is not remembered.
        if let Err(refusal) = self.agree(request, now, effects) {
            return refusal;
        }
        if self.queue.len() >= actual.waiters_max {
            return AcquireOutcome::QueueFull;
        }
        let state = State::Gone(now.after(GRACE));
        self.queue.push(Waiting { request, attempt, calls: Vec::new(), state });
        AcquireOutcome::Queued
    }

    /// Other parameters with a known request id are refused. The model sends them for known ids only.
    fn acquire_other(&self, request: u8, attempt: u32) -> AcquireOutcome {
        let ended = self.past.iter().any(|past| past.ends(request)) || self.is_paused_by(request);
        if self.has_tombstone(request, attempt, 0) || !ended && self.is_older_than_refused(request, attempt) {
            return AcquireOutcome::Overtaken;
        }
        AcquireOutcome::OtherTerms
    }

    /// Whether a newer attempt was refused the lock.
    fn is_older_than_refused(&self, request: u8, attempt: u32) -> bool {
        let refused = self.past.iter().rev().filter(|past| past.request == request).find_map(|past| match past.how {
            How::Refused(refused) => Some(refused),
            _ => None,
        });
        refused.is_some_and(|refused| attempt < refused)
    }

    fn claim(
        &mut self,
        (request, attempt, copy): (u8, u32, u8),
        lease: u32,
        actual: &Actual<'_>,
        effects: &mut Vec<OracleEffect>,
    ) -> AcquireOutcome {
        if self.has_tombstone(request, attempt, copy) {
            return AcquireOutcome::Overtaken;
        }
        if let Some(outcome) = self.outcome_of_call(request, attempt, actual.now) {
            return outcome;
        }
        if self.asks_too_much(request) {
            return self.refuse_claim(request, attempt, actual.now, effects);
        }
        let it = self.waiting(request);
        if matches!(it.state, State::Missed(_)) {
            it.state = State::Live;
        }
        self.offer_to_next(actual.now, effects);
        effects.retain(|it| *it != OracleEffect::LookAgain(request, attempt));
        if self.is_offered(request) {
            self.grant_offer(request, lease, actual, effects)
        } else {
            AcquireOutcome::Queued
        }
    }

    fn give_up(
        &mut self,
        (request, attempt, copy): (u8, u32, u8),
        now: StoreTime,
        effects: &mut Vec<OracleEffect>,
    ) -> AcquireOutcome {
        if let Some(outcome) = self.outcome_of_call(request, attempt, now) {
            return outcome;
        }
        let it = self.waiting(request);
        let bound = unbind(&mut it.calls, copy);
        if bound && it.calls.is_empty() { self.time_out(request, now, effects) } else { AcquireOutcome::Shared }
    }

    fn drop_call(&mut self, (request, attempt, copy): (u8, u32, u8), now: StoreTime, effects: &mut Vec<OracleEffect>) {
        let mut known = self.past.iter().any(|past| past.ends(request)) || self.is_paused_by(request);
        if let Some(held) = self.held.iter_mut().find(|held| held.request == request) {
            let bound = attempt == held.attempt && unbind(&mut held.calls, copy);
            known = bound || attempt < held.attempt;
            if bound && held.calls.is_empty() && !held.learned {
                held.end = held.end.min(now.after(GRACE));
                held.cut = true;
            }
        } else if let Some(it) = self.queue.iter_mut().find(|it| it.request == request) {
            let bound = attempt == it.attempt && unbind(&mut it.calls, copy);
            known = bound || attempt < it.attempt;
            if bound && it.calls.is_empty() {
                it.state = State::Gone(now.after(GRACE));
                self.offers.retain(|(it, _)| *it != request);
                self.offer_to_next(now, effects);
            }
        }
        if !known {
            self.tombstones.push((request, attempt, copy, now.after(WINDOW)));
        }
    }

    /// The answer to a call that must not act any more.
    fn outcome_of_call(&self, request: u8, attempt: u32, now: StoreTime) -> Option<AcquireOutcome> {
        if let Some(outcome) = self.outcome_of_past(request, now) {
            return Some(outcome);
        }
        let held = self.held.iter().find(|held| held.request == request);
        let bound = held.map(|held| (held.attempt, held.calls.is_empty()));
        let it = self.queue.iter().find(|it| it.request == request);
        match bound.or(it.map(|it| (it.attempt, it.calls.is_empty()))) {
            None => Some(AcquireOutcome::Unknown),
            Some((bound, _)) if bound < attempt => Some(AcquireOutcome::Unknown),
            Some((bound, is_dropped)) if attempt < bound || is_dropped => Some(AcquireOutcome::Overtaken),
            Some(_) => held.map(|held| AcquireOutcome::Granted(held.grant(now))),
        }
    }

    fn outcome_of_past(&self, request: u8, now: StoreTime) -> Option<AcquireOutcome> {
        let Some(past) = self.past.iter().find(|past| past.ends(request)) else {
            return self.is_paused_by(request).then_some(AcquireOutcome::Ended);
        };
        Some(match past.how {
            How::TimedOut => AcquireOutcome::TimedOut(self.contention(now)),
            How::Held(..) | How::Abandoned | How::Refused(_) => AcquireOutcome::Ended,
        })
    }

    fn time_out(&mut self, request: u8, now: StoreTime, effects: &mut Vec<OracleEffect>) -> AcquireOutcome {
        self.queue.retain(|it| it.request != request);
        self.offers.retain(|(it, _)| *it != request);
        self.past.push(Past { request, how: How::TimedOut, at: now });
        self.offer_to_next(now, effects);
        AcquireOutcome::TimedOut(self.contention(now))
    }

    fn grant_offer(
        &mut self,
        request: u8,
        lease: u32,
        actual: &Actual<'_>,
        effects: &mut Vec<OracleEffect>,
    ) -> AcquireOutcome {
        let index = self.queue.iter().position(|it| it.request == request).unwrap();
        let it = self.queue.remove(index);
        self.offers.retain(|(it, _)| *it != request);
        self.grant(request, it.attempt, it.calls, lease, actual, effects)
    }

    fn grant(
        &mut self,
        request: u8,
        attempt: u32,
        calls: Vec<u8>,
        lease: u32,
        actual: &Actual<'_>,
        effects: &mut Vec<OracleEffect>,
    ) -> AcquireOutcome {
        // The oracle takes the token from the real answer. The history checks that tokens rise.
        let Outcome::Acquire(AcquireOutcome::Granted(real)) = actual.answer else {
            panic!("request {request} gets the lock, not {:?}", actual.answer)
        };
        let mut held = Holding::granted(request, attempt, calls, lease, real.token, actual.now);
        held.before = self.last.map(|last| last.handed_on);
        held.permits = self.permits_now(request);
        let grant = held.grant(actual.now);
        self.held.push(held);
        effects.push(OracleEffect::Granted(real.token));
        AcquireOutcome::Granted(grant)
    }

    fn has_tombstone(&self, request: u8, attempt: u32, copy: u8) -> bool {
        self.tombstones.iter().any(|tombstone| (tombstone.0, tombstone.1, tombstone.2) == (request, attempt, copy))
    }

    /// Whether the id of this request is bound to its terms.
    pub(super) fn knows(&self, request: u8, now: StoreTime) -> bool {
        let mut known = self.clone();
        known.apply_time(now, &mut Vec::new());
        known.past.iter().any(|it| it.ends(request))
            || known.is_paused_by(request)
            || known.held.iter().any(|it| it.request == request)
            || known.queue.iter().any(|it| it.request == request)
    }
}

impl Holding {
    fn grant(&self, now: StoreTime) -> Grant {
        Grant {
            lease_id: super::lease_id(self.lease),
            grant_id: super::grant_id(self.lease),
            token: self.token,
            left: self.end.since(now),
            previous_end: self.before,
            slot: self.permits.and_then(|permits| permits.slot),
            mode: self.kind.name(),
        }
    }
}

/// Binds a call. Returns the attempt that it replaces, if there is one.
fn bind(bound: &mut u32, calls: &mut Vec<u8>, attempt: u32, copy: u8) -> Option<u32> {
    if attempt == *bound {
        unbind(calls, copy);
        calls.push(copy);
        return None;
    }
    let before = std::mem::replace(bound, attempt);
    *calls = vec![copy];
    Some(before)
}

/// Unbinds a call. Returns whether it was bound.
fn unbind(calls: &mut Vec<u8>, copy: u8) -> bool {
    let before = calls.len();
    calls.retain(|it| *it != copy);
    calls.len() < before
}
