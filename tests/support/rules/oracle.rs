//! The oracle: the expected state of a lock, in plain lists. This file has time, leases and views; `calls` has the
//! calls that request the lock.

use super::{
    Step, holder,
    state::{CLAIM, GRACE, Holding, How, MEMORY, OracleEffect, Past, State, WINDOW, Waiting, end_number},
};
use fencepost::testing::domain::{
    command::{Effects, Outcome},
    lease::LeaseEnd,
    outcome::{Contention, Fate, Gone, LockView, ReleaseOutcome, RenewOutcome, Renewed, RevokeOutcome},
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
                    return Outcome::Release(ReleaseOutcome::Gone(self.gone(lease)));
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
            Step::ForceRelease { right } => Outcome::Revoke(match &self.lease {
                None => RevokeOutcome::NotHeld,
                Some(held) if !right => RevokeOutcome::TokenMismatch(held.token),
                Some(held) => {
                    let holder = holder(held.request);
                    self.end(LeaseEnd::Revoked, now, effects);
                    self.offer_to_next(now, effects);
                    RevokeOutcome::Revoked(holder)
                }
            }),
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
        self.last = self.last.filter(|(_, _, at)| now < at.after(MEMORY));
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
    }

    /// Offers a free lock to the first waiter that is not skipped.
    pub(super) fn offer_to_next(&mut self, now: StoreTime, effects: &mut Vec<OracleEffect>) {
        if self.lease.is_some() || self.offer.is_some() {
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
        let unknown = if successor.is_some() { Fate::Superseded } else { Fate::Unknown };
        Gone { fate: remembered.map_or(unknown, Fate::Ended), successor }
    }

    pub(super) fn contention(&self, now: StoreTime) -> Box<Contention> {
        Box::new(Contention {
            current: self.lease.as_ref().map(|held| held.view(now)),
            classic: None,
            waiters: self.queue.len(),
        })
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
        }
    }

    /// When a lease, an offer or a queue position next ends by time.
    pub(super) fn change(&self) -> Option<StoreTime> {
        let positions = self.queue.iter().filter_map(|it| match it.state {
            State::Gone(until) => Some(until),
            _ => None,
        });
        positions.chain(self.lease.as_ref().map(|it| it.end)).chain(self.offer.map(|it| it.1)).min()
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
        past.chain(tombstones).chain(changes).chain(rest).filter(|edge| now < *edge).min()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.lease.is_none() && self.past.is_empty() && self.tombstones.is_empty()
    }

    pub(super) fn leases(&self) -> Vec<u32> {
        let past = self.past.iter().rev().filter_map(|past| match past.how {
            How::Held(lease, _) => Some(lease),
            _ => None,
        });
        self.lease.as_ref().map(|held| held.lease).into_iter().chain(past).collect()
    }
}
