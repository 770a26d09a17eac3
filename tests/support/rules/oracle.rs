//! The oracle: the expected state of a lock, in plain lists. This file has time and leases; `calls` has the calls that
//! request the lock, `views` what others see of it.

use super::{
    Kind, Step, delays, holder, kind,
    state::{
        CLAIM, GRACE, Holding, How, Last, MEMORY, OracleEffect, Past, Pause, State, UNHEARD, WINDOW, Waiting,
        end_number, worse,
    },
};
use fencepost::testing::domain::{
    command::{Effects, Outcome},
    lease::LeaseEnd,
    mode::PermitLimit,
    outcome::{Fate, Gone, ReleaseOutcome, RenewOutcome, Renewed, RevokeOutcome},
    time::StoreTime,
    token::FencingToken,
};
use std::time::Duration;

/// The result of a step by the rules.
pub(crate) struct Actual<'a> {
    pub(crate) now: StoreTime,
    pub(crate) waiters_max: usize,
    pub(crate) answer: &'a Outcome,
    pub(crate) effects: &'a Effects,
}

/// The expected state of the lock.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    pub(super) queue: Vec<Waiting>,
    pub(super) offers: Vec<(u8, StoreTime)>,
    /// One exclusive lease, or any number of shared ones or with permits, in the order of their tokens.
    pub(super) held: Vec<Holding>,
    /// The limit in force, for as long as anybody has permits or waits for any.
    pub(super) limit: Option<PermitLimit>,
    pub(super) past: Vec<Past>,
    pub(super) last: Option<Last>,
    pub(super) tombstones: Vec<(u8, u32, u8, StoreTime)>,
    /// The one of an exclusive lease, or any number of others.
    pub(super) pauses: Vec<Pause>,
}

impl Oracle {
    /// Computes the expected result of the step, and compares it.
    pub(super) fn follow(&mut self, step: Step, actual: &Actual<'_>) {
        let mut effects = Vec::new();
        let expected = self.expect(step, actual, &mut effects);
        self.forget_limit();
        assert_eq!(*actual.answer, expected, "{step:?}");
        let mut real: Vec<_> = actual.effects.iter().map(OracleEffect::of).collect();
        // The call may get a redundant wake, because its answer follows anyway.
        if let Step::Acquire { request, attempt, .. } | Step::Claim { request, attempt, .. } = step {
            let own = OracleEffect::LookAgain(request, attempt);
            real.retain(|it| *it != own || effects.contains(&own));
        }
        real.sort_unstable();
        effects.sort_unstable();
        assert_eq!(real, effects, "the effects of {step:?}");
    }

    fn expect(&mut self, step: Step, actual: &Actual<'_>, effects: &mut Vec<OracleEffect>) -> Outcome {
        let now = actual.now;
        let (revoked, oldest_pause) = (self.token_to_revoke(), self.token_to_lift());
        if step.acts() {
            self.apply_time(now, effects);
        }
        match step {
            Step::Release { lease } => {
                let Some(token) = self.lease(lease).map(|held| held.token) else {
                    let gone = self.gone(lease);
                    if let Some(pause) = self.pauses.iter_mut().find(|pause| pause.lease == lease) {
                        pause.unless_released = pause.unless_released.min(now);
                        self.resume_all(now);
                        self.offer_to_next(now, effects);
                    }
                    return Outcome::Release(ReleaseOutcome::Gone(gone));
                };
                self.end(token, LeaseEnd::Released, now, effects);
                self.offer_to_next(now, effects);
                Outcome::Release(ReleaseOutcome::Released)
            }
            Step::Renew { .. } | Step::RenewKept { .. } | Step::Attach { .. } => {
                Outcome::Renew(self.renew(step, now, effects))
            }
            Step::Detach { lease, attachment } => {
                if let Some(held) = self.lease(lease).filter(|it| it.attachment == Some(attachment)) {
                    held.attachment = None;
                    held.attachment_attempt = 0;
                }
                Outcome::Done
            }
            Step::Disconnect { lease, attachment } => {
                let kept = self.lease(lease).filter(|it| it.attachment == Some(attachment));
                if let Some(token) = kept.map(|held| held.token) {
                    self.end(token, LeaseEnd::Revoked, now, effects);
                    self.offer_to_next(now, effects);
                }
                Outcome::Done
            }
            Step::Convert { .. } => Outcome::Convert(self.convert(step, actual, effects)),
            Step::ForceRelease { right } => {
                Outcome::Revoke(self.force_release(revoked.filter(|_| right), now, effects))
            }
            Step::ForceReleaseGhost => Outcome::Revoke(self.force_release(oldest_pause, now, effects)),
            _ => self.expect_of_call(step, actual, effects),
        }
    }

    /// The token that an operator names who names the right one: of the newest lease, or of the newest that has ended
    /// and still occupies something.
    pub(super) fn token_to_revoke(&self) -> Option<FencingToken> {
        let paused = self.pauses.iter().map(|pause| pause.token).max();
        self.held.last().map(|held| held.token).or(paused)
    }

    /// The token of the oldest lease that has ended and still occupies something.
    pub(super) fn token_to_lift(&self) -> Option<FencingToken> {
        self.pauses.iter().map(|pause| pause.token).min()
    }

    fn force_release(
        &mut self,
        token: Option<FencingToken>,
        now: StoreTime,
        effects: &mut Vec<OracleEffect>,
    ) -> RevokeOutcome {
        let Some(newest) = self.token_to_revoke() else { return RevokeOutcome::NotHeld };
        let held = self.held.iter().map(|held| (held.token, held.request));
        let mut kept = held.chain(self.pauses.iter().map(|pause| (pause.token, pause.request)));
        let Some((token, request)) = kept.find(|(it, _)| Some(*it) == token) else {
            return RevokeOutcome::TokenMismatch(newest);
        };
        if self.held.iter().any(|held| held.token == token) {
            self.end(token, LeaseEnd::Revoked, now, effects);
            // An operator leaves nothing of a lease.
            self.pauses.retain(|pause| pause.token != token);
        } else {
            let pause = self.pauses.iter_mut().find(|pause| pause.token == token).unwrap();
            (pause.at_least, pause.unless_released) = (now, now);
            self.resume(token);
        }
        self.offer_to_next(now, effects);
        RevokeOutcome::Revoked(holder(request))
    }

    fn renew(&mut self, step: Step, now: StoreTime, effects: &mut Vec<OracleEffect>) -> RenewOutcome {
        let (Step::Renew { lease, .. } | Step::RenewKept { lease, .. } | Step::Attach { lease, .. }) = step else {
            unreachable!("no renewal: {step:?}")
        };
        let gone = self.gone(lease);
        let Some(held) = self.lease(lease) else {
            return RenewOutcome::Lost(gone);
        };
        let mut ttl = held.ttl;
        match step {
            Step::Renew { ttl: Some(micros), .. } => ttl = Duration::from_micros(micros),
            Step::RenewKept { attachment, .. } if held.attachment != Some(attachment) => {
                return RenewOutcome::AttachedElsewhere;
            }
            Step::Attach { attempt, .. } if attempt < held.attachment_attempt => {
                return RenewOutcome::AttachedElsewhere;
            }
            Step::Attach { attempt, attachment, .. } => {
                effects
                    .extend(held.attachment.filter(|it| *it != attachment).map(|it| OracleEffect::Detached(lease, it)));
                held.attachment = Some(attachment);
                held.attachment_attempt = attempt;
            }
            _ => {}
        }
        held.extend(now, ttl);
        held.learned = true;
        RenewOutcome::Renewed(Renewed { token: held.token, ttl: held.ttl, left: held.end.since(now) })
    }

    /// Applies the passing of time.
    pub(super) fn apply_time(&mut self, now: StoreTime, effects: &mut Vec<OracleEffect>) {
        self.limit_times(now);
        while let Some((at, token)) = self.next_over(now) {
            if self.pauses.iter().any(|pause| pause.token == token) {
                self.resume(token);
            } else {
                self.end(token, LeaseEnd::Expired, at, effects);
            }
        }
        for (request, _) in self.offers.extract_if(.., |(_, until)| *until <= now).collect::<Vec<_>>() {
            self.waiting(request).state = State::Missed(now.after(UNHEARD));
        }
        let mut abandoned = Vec::new();
        self.queue.retain(|it| match it.state {
            State::Gone(until) if until <= now => {
                abandoned.push(Past { request: it.request, how: How::Abandoned, at: until });
                false
            }
            // Its request has not ended: it may come again.
            State::Missed(until) => now < until,
            _ => true,
        });
        self.past.append(&mut abandoned);
        self.past.retain(|it| now < it.at.after(MEMORY));
        // As long as nobody can have the lock, its last lease is remembered.
        let is_unavailable = self.pauses.iter().any(|pause| pause.kind == Kind::Exclusive);
        self.last = self.last.filter(|last| is_unavailable || now < last.at.after(MEMORY));
        self.tombstones.retain(|(.., until)| now <= *until);
        self.offer_to_next(now, effects);
    }

    /// After a step back of the clock, no time in the state is further ahead than its own period.
    fn limit_times(&mut self, now: StoreTime) {
        for held in &mut self.held {
            let period = if held.cut { held.ttl.min(GRACE) } else { held.ttl };
            held.end = held.end.min(now.after(period));
        }
        self.offers.iter_mut().for_each(|(_, until)| *until = (*until).min(now.after(CLAIM)));
        for it in &mut self.queue {
            match &mut it.state {
                State::Gone(until) => *until = (*until).min(now.after(GRACE)),
                State::Missed(until) => *until = (*until).min(now.after(UNHEARD)),
                State::Live => {}
            }
        }
        self.tombstones.iter_mut().for_each(|tombstone| tombstone.3 = tombstone.3.min(now.after(WINDOW)));
        self.past.iter_mut().for_each(|past| past.at = past.at.min(now));
        self.last.iter_mut().for_each(|last| last.at = last.at.min(now));
        for pause in &mut self.pauses {
            let (min_hold, lock_delay) = delays(pause.request);
            pause.at_least = pause.at_least.min(now.after(min_hold));
            pause.unless_released = pause.unless_released.min(now.after(lock_delay));
        }
    }

    /// Offers the lock to the waiters that are not skipped, one after the other, up to the first one that does not fit.
    pub(super) fn offer_to_next(&mut self, now: StoreTime, effects: &mut Vec<OracleEffect>) {
        self.forget_limit();
        for index in 0..self.queue.len() {
            let Waiting { request, attempt, state, .. } = self.queue[index];
            if state != State::Live || self.is_offered(request) {
                continue;
            }
            if self.is_held_or_offered_alone() {
                return;
            }
            if self.asks_too_much(request) {
                self.skip(index, now, effects);
                continue;
            }
            if !self.fits(request) {
                return;
            }
            self.offers.push((request, now.after(CLAIM)));
            effects.push(OracleEffect::LookAgain(request, attempt));
        }
    }

    /// Whether one exclusive request has the lock, or is offered it. Nobody else is told anything until that ends.
    fn is_held_or_offered_alone(&self) -> bool {
        self.holding_or_offered().any(|it| it == Kind::Exclusive)
    }

    /// The kinds of those that hold the lock, are offered it, or occupy a part of it after their lease.
    pub(super) fn occupying(&self) -> impl Iterator<Item = Kind> {
        self.holding_or_offered().chain(self.pauses.iter().map(|pause| pause.kind))
    }

    /// The kinds of those that hold the lock or are offered it.
    fn holding_or_offered(&self) -> impl Iterator<Item = Kind> {
        let offers = self.offers.iter().map(|(request, _)| kind(*request));
        self.held.iter().map(|held| held.kind).chain(offers)
    }

    pub(super) fn is_offered(&self, request: u8) -> bool {
        self.offers.iter().any(|(it, _)| *it == request)
    }

    fn end(&mut self, token: FencingToken, end: LeaseEnd, at: StoreTime, effects: &mut Vec<OracleEffect>) {
        let index = self.held.iter().position(|held| held.token == token).unwrap();
        let held = self.held.remove(index);
        effects.push(OracleEffect::Ended(held.lease, end_number(end)));
        // Readers hand on what a holder before them left: a writer that comes after them has to hear of it.
        let handed_on = if held.kind == Kind::Shared { worse(held.before, end) } else { end };
        let remembered = self.last.filter(|last| at < last.at.after(MEMORY));
        let token = remembered.map_or(token, |last| last.token.max(token));
        self.last = Some(Last { token, handed_on, at });
        self.past.push(Past { request: held.request, how: How::Held(held.lease, end), at });
        let (min_hold, lock_delay) = delays(held.request);
        let pause = Pause {
            request: held.request,
            kind: held.kind,
            permits: held.permits,
            lease: held.lease,
            token: held.token,
            how: end,
            handed_on,
            at_least: held.since.min(at).after(min_hold),
            unless_released: if end == LeaseEnd::Released { at } else { at.after(lock_delay) },
        };
        self.pauses.extend(Some(pause).filter(|pause| at < pause.end()));
    }

    /// What is over first by now: when, and the token of a lease, or of one that has ended and still occupies
    /// something.
    fn next_over(&self, now: StoreTime) -> Option<(StoreTime, FencingToken)> {
        let leases = self.held.iter().map(|held| (held.end, held.token));
        let pauses = self.pauses.iter().map(|pause| (pause.end(), pause.token));
        leases.chain(pauses).filter(|(at, _)| *at <= now).min()
    }

    fn resume_all(&mut self, now: StoreTime) {
        for token in self.pauses.iter().filter(|pause| pause.end() <= now).map(|pause| pause.token).collect::<Vec<_>>()
        {
            self.resume(token);
        }
    }

    /// Ends a pause, and with it what it occupies. Its lease is remembered from then on, and the next holder hears of
    /// it.
    fn resume(&mut self, token: FencingToken) {
        let index = self.pauses.iter().position(|pause| pause.token == token).unwrap();
        let pause = self.pauses.remove(index);
        let (how, at) = (How::Held(pause.lease, pause.how), pause.end());
        self.past.retain(|past| past.how != how);
        self.past.push(Past { request: pause.request, how, at });
        let remembered = self.last.filter(|last| at < last.at.after(MEMORY));
        let token = remembered.map_or(token, |last| last.token.max(token));
        self.last = Some(Last { token, handed_on: pause.handed_on, at });
    }

    /// Whether a lease of this request has ended and still occupies something.
    pub(super) fn is_paused_by(&self, request: u8) -> bool {
        self.pauses.iter().any(|pause| pause.request == request)
    }

    pub(super) fn waiting(&mut self, request: u8) -> &mut Waiting {
        self.queue.iter_mut().find(|it| it.request == request).unwrap()
    }

    fn lease(&mut self, lease: u32) -> Option<&mut Holding> {
        self.held.iter_mut().find(|held| held.lease == lease)
    }

    pub(super) fn gone(&self, lease: u32) -> Gone {
        let remembered = self.past.iter().find_map(|past| match past.how {
            How::Held(it, end) if it == lease => Some(end),
            _ => None,
        });
        let paused = self.pauses.iter().find(|pause| pause.lease == lease).map(|pause| pause.how);
        let remembered = remembered.or(paused);
        // A reader or a holder of permits takes nobody's place.
        let unknown = if self.exclusive().is_some() { Fate::Superseded } else { Fate::Unknown };
        let successor = self.held.last().map(|held| held.token);
        Gone { fate: remembered.map_or(unknown, Fate::Ended), successor }
    }

    /// The requests that are offered the lock, by number.
    pub(super) fn offers(&self) -> Vec<u8> {
        let mut offers: Vec<_> = self.offers.iter().map(|(request, _)| *request).collect();
        offers.sort_unstable();
        offers
    }

    pub(super) fn exclusive(&self) -> Option<&Holding> {
        self.held.iter().find(|held| held.kind == Kind::Exclusive)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.held.is_empty()
            && self.past.is_empty()
            && self.tombstones.is_empty()
            && self.pauses.is_empty()
    }

    /// The leases that are remembered, newest first.
    pub(super) fn leases(&self) -> Vec<u32> {
        let past = self.past.iter().rev().filter_map(|past| match past.how {
            How::Held(lease, _) => Some(lease),
            _ => None,
        });
        let paused = self.pauses.iter().rev().map(|pause| pause.lease);
        let mut leases: Vec<_> = self.held.iter().rev().map(|held| held.lease).chain(paused).collect();
        for lease in past {
            if !leases.contains(&lease) {
                leases.push(lease);
            }
        }
        leases
    }
}
