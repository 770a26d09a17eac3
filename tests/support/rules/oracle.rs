//! The oracle: the expected state of a lock, in plain lists. This file has time, leases and views; `calls` has the
//! calls that request the lock.

use super::{
    Step, delays, holder,
    state::{CLAIM, GRACE, Holding, How, MEMORY, OracleEffect, Past, Pause, State, WINDOW, Waiting, end_number},
};
use fencepost::testing::domain::{
    command::{Effects, Outcome},
    lease::LeaseEnd,
    outcome::{Contention, DelayView, Fate, Gone, LockView, ReleaseOutcome, RenewOutcome, Renewed, RevokeOutcome},
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
    pub(super) offer: Option<(u8, StoreTime)>,
    pub(super) lease: Option<Holding>,
    pub(super) past: Vec<Past>,
    pub(super) last: Option<(FencingToken, LeaseEnd, StoreTime)>,
    pub(super) tombstones: Vec<(u8, u32, u8, StoreTime)>,
    pub(super) pause: Option<Pause>,
}

impl Oracle {
    /// Computes the expected result of the step, and compares it.
    pub(super) fn follow(&mut self, step: Step, actual: &Actual<'_>) {
        let mut effects = Vec::new();
        let expected = self.expect(step, actual, &mut effects);
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
        if step.acts() {
            self.apply_time(now, effects);
        }
        match step {
            Step::Release { lease } => {
                if !self.holds(lease) {
                    let gone = self.gone(lease);
                    if let Some(pause) = self.pause.as_mut().filter(|pause| pause.lease == lease) {
                        pause.unless_released = pause.unless_released.min(now);
                        self.resume(now);
                        self.offer_to_next(now, effects);
                    }
                    return Outcome::Release(ReleaseOutcome::Gone(gone));
                }
                self.end(LeaseEnd::Released, now, effects);
                self.offer_to_next(now, effects);
                Outcome::Release(ReleaseOutcome::Released)
            }
            Step::Renew { .. } | Step::RenewKept { .. } | Step::Attach { .. } => {
                Outcome::Renew(self.renew(step, now, effects))
            }
            Step::Detach { lease, attachment } => {
                if let Some(held) =
                    self.lease.as_mut().filter(|it| it.lease == lease && it.attachment == Some(attachment))
                {
                    held.attachment = None;
                    held.attachment_attempt = 0;
                }
                Outcome::Done
            }
            Step::Disconnect { lease, attachment } => {
                if self.lease.as_ref().is_some_and(|it| it.lease == lease && it.attachment == Some(attachment)) {
                    self.end(LeaseEnd::Revoked, now, effects);
                    self.offer_to_next(now, effects);
                }
                Outcome::Done
            }
            Step::ForceRelease { right } => {
                let held = self.lease.as_ref().map(|held| (held.token, held.request));
                let kept = held.or(self.pause.as_ref().map(|pause| (pause.token, pause.request)));
                Outcome::Revoke(match kept {
                    None => RevokeOutcome::NotHeld,
                    Some((token, _)) if !right => RevokeOutcome::TokenMismatch(token),
                    Some((_, request)) => {
                        if self.lease.is_some() {
                            self.end(LeaseEnd::Revoked, now, effects);
                            self.pause = None;
                        }
                        if let Some(pause) = &mut self.pause {
                            (pause.at_least, pause.unless_released) = (now, now);
                        }
                        self.resume(now);
                        self.offer_to_next(now, effects);
                        RevokeOutcome::Revoked(holder(request))
                    }
                })
            }
            _ => self.expect_of_call(step, actual, effects),
        }
    }

    fn renew(&mut self, step: Step, now: StoreTime, effects: &mut Vec<OracleEffect>) -> RenewOutcome {
        let (Step::Renew { lease, .. } | Step::RenewKept { lease, .. } | Step::Attach { lease, .. }) = step else {
            unreachable!("no renewal: {step:?}")
        };
        let gone = self.gone(lease);
        let Some(held) = self.lease.as_mut().filter(|held| held.lease == lease) else {
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
        if let Some(end) = self.lease.as_ref().map(|held| held.end).filter(|end| *end <= now) {
            self.end(LeaseEnd::Expired, end, effects);
        }
        self.resume(now);
        if let Some((request, _)) = self.offer.take_if(|(_, until)| *until <= now) {
            self.waiting(request).state = State::Missed;
        }
        let mut abandoned = Vec::new();
        self.queue.retain(|it| match it.state {
            State::Gone(until) if until <= now => {
                abandoned.push(Past { request: it.request, how: How::Abandoned, at: until });
                false
            }
            _ => true,
        });
        self.past.append(&mut abandoned);
        self.past.retain(|it| now < it.at.after(MEMORY));
        self.last = self.last.filter(|(_, _, at)| self.pause.is_some() || now < at.after(MEMORY));
        self.tombstones.retain(|(.., until)| now <= *until);
        self.offer_to_next(now, effects);
    }

    /// After a step back of the clock, no time in the state is further ahead than its own period.
    fn limit_times(&mut self, now: StoreTime) {
        if let Some(held) = &mut self.lease {
            let period = if held.cut { held.ttl.min(GRACE) } else { held.ttl };
            held.end = held.end.min(now.after(period));
        }
        self.offer = self.offer.map(|(request, until)| (request, until.min(now.after(CLAIM))));
        for it in &mut self.queue {
            if let State::Gone(until) = &mut it.state {
                *until = (*until).min(now.after(GRACE));
            }
        }
        self.tombstones.iter_mut().for_each(|tombstone| tombstone.3 = tombstone.3.min(now.after(WINDOW)));
        self.past.iter_mut().for_each(|past| past.at = past.at.min(now));
        self.last = self.last.map(|(token, end, at)| (token, end, at.min(now)));
        if let Some(pause) = &mut self.pause {
            let (min_hold, lock_delay) = delays(pause.request);
            pause.at_least = pause.at_least.min(now.after(min_hold));
            pause.unless_released = pause.unless_released.min(now.after(lock_delay));
        }
    }

    /// Offers a free lock to the first waiter that is not skipped.
    pub(super) fn offer_to_next(&mut self, now: StoreTime, effects: &mut Vec<OracleEffect>) {
        if self.lease.is_some() || self.offer.is_some() || self.pause.is_some() {
            return;
        }
        if let Some(next) = self.queue.iter().find(|it| it.state == State::Live) {
            self.offer = Some((next.request, now.after(CLAIM)));
            effects.push(OracleEffect::LookAgain(next.request, next.attempt));
        }
    }

    fn end(&mut self, end: LeaseEnd, at: StoreTime, effects: &mut Vec<OracleEffect>) {
        let held = self.lease.take().unwrap();
        effects.push(OracleEffect::Ended(held.lease, end_number(end)));
        self.last = Some((held.token, end, at));
        self.past.push(Past { request: held.request, how: How::Held(held.lease, end), at });
        let (min_hold, lock_delay) = delays(held.request);
        let pause = Pause {
            request: held.request,
            lease: held.lease,
            token: held.token,
            how: end,
            at_least: held.since.min(at).after(min_hold),
            unless_released: if end == LeaseEnd::Released { at } else { at.after(lock_delay) },
        };
        self.pause = Some(pause).filter(|pause| at < pause.end());
    }

    /// Ends a pause that is over. Its lease is remembered from then on.
    fn resume(&mut self, now: StoreTime) {
        if let Some(pause) = self.pause.take_if(|pause| pause.end() <= now) {
            let (how, at) = (How::Held(pause.lease, pause.how), pause.end());
            self.past.retain(|past| past.how != how);
            self.past.push(Past { request: pause.request, how, at });
            self.last = Some((pause.token, pause.how, at));
        }
    }

    /// Whether the lock is unavailable after a lease of this request.
    pub(super) fn is_paused_by(&self, request: u8) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.request == request)
    }

    pub(super) fn waiting(&mut self, request: u8) -> &mut Waiting {
        self.queue.iter_mut().find(|it| it.request == request).unwrap()
    }

    fn holds(&self, lease: u32) -> bool {
        self.lease.as_ref().is_some_and(|held| held.lease == lease)
    }

    fn gone(&self, lease: u32) -> Gone {
        let successor = self.lease.as_ref().map(|held| held.token);
        let remembered = self.past.iter().find_map(|past| match past.how {
            How::Held(it, end) if it == lease => Some(end),
            _ => None,
        });
        let paused = self.pause.as_ref().filter(|pause| pause.lease == lease).map(|pause| pause.how);
        let remembered = remembered.or(paused);
        let unknown = if successor.is_some() { Fate::Superseded } else { Fate::Unknown };
        Gone { fate: remembered.map_or(unknown, Fate::Ended), successor }
    }

    pub(super) fn contention(&self, now: StoreTime) -> Box<Contention> {
        Box::new(Contention {
            current: self.lease.as_ref().map(|held| held.view(now)),
            classic: None,
            waiters: self.queue.len(),
            delay: self.delay(now),
        })
    }

    fn delay(&self, now: StoreTime) -> Option<DelayView> {
        let Pause { request, token, .. } = self.pause.as_ref()?;
        let left = self.pause.as_ref()?.end().since(now);
        Some(DelayView { holder: holder(*request), token: *token, left })
    }

    /// The expected view.
    pub(super) fn seen(&self, now: StoreTime) -> LockView {
        let mut seen = self.clone();
        seen.apply_time(now, &mut Vec::new());
        let (current, last) = (seen.lease.as_ref(), seen.last);
        LockView {
            current: current.map(|held| held.view(now)),
            classic: None,
            waiters: seen.queue.len(),
            previous_end: current.map_or(last.map(|(_, end, _)| end), |held| held.before),
            newest_token: current.map(|held| held.token).or(last.map(|(token, _, _)| token)),
            delay: seen.delay(now),
        }
    }

    /// When a lease, an offer or a queue position next ends by time.
    pub(super) fn change(&self) -> Option<StoreTime> {
        let positions = self.queue.iter().filter_map(|it| match it.state {
            State::Gone(until) => Some(until),
            _ => None,
        });
        let pause = self.pause.as_ref().map(Pause::end);
        positions.chain(self.lease.as_ref().map(|it| it.end)).chain(self.offer.map(|it| it.1)).chain(pause).min()
    }

    /// When anything next expires, the memory of an end included.
    pub(super) fn edge(&self, now: StoreTime) -> Option<StoreTime> {
        let past = self.past.iter().map(|it| it.at.after(MEMORY));
        let tombstones = self.tombstones.iter().map(|it| it.3.after(Duration::from_micros(1)));
        let changes = self.queue.iter().filter_map(|it| match it.state {
            State::Gone(until) => Some(until),
            _ => None,
        });
        let rest = self.lease.as_ref().map(|it| it.end).into_iter().chain(self.offer.map(|it| it.1));
        let pause = self.pause.as_ref().map(Pause::end);
        past.chain(tombstones).chain(changes).chain(rest).chain(pause).filter(|edge| now < *edge).min()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.lease.is_none()
            && self.past.is_empty()
            && self.tombstones.is_empty()
            && self.pause.is_none()
    }

    pub(super) fn leases(&self) -> Vec<u32> {
        let past = self.past.iter().rev().filter_map(|past| match past.how {
            How::Held(lease, _) => Some(lease),
            _ => None,
        });
        let paused = self.pause.as_ref().map(|pause| pause.lease);
        let mut leases: Vec<_> = self.lease.as_ref().map(|held| held.lease).into_iter().chain(paused).collect();
        for lease in past {
            if !leases.contains(&lease) {
                leases.push(lease);
            }
        }
        leases
    }
}
