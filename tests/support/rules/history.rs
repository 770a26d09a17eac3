//! Guarantees that can be checked on the answers alone, without a model of the lock.

use super::{Kind, Step, delays, holder, kind, lease_number, oracle::Actual, request_number};
use fencepost::testing::domain::{
    command::{Effect, Outcome},
    lease::LeaseEnd,
    mode::Mode,
    outcome::{AcquireOutcome, ConvertOutcome, Grant, ReleaseOutcome, RenewOutcome, RevokeOutcome},
    time::StoreTime,
    token::FencingToken,
};
use std::{num::NonZeroU32, time::Duration};

const MEMORY: Duration = Duration::from_secs(10);

/// An answer to a request that restricts later answers.
#[derive(Clone, Debug)]
struct Fact {
    request: u8,
    kind: FactKind,
    at: StoreTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FactKind {
    /// This attempt was bound.
    Bound(u32),
    TimedOut,
    LeaseEnded,
}

/// All answers so far that restrict later ones.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// The leases that hold the lock.
    held: Vec<Held>,
    ended: Vec<u32>,
    highest_token: u64,
    granted: u32,
    facts: Vec<Fact>,
    delays: Vec<Delay>,
}

/// A lease that holds the lock, as the answers tell.
#[derive(Clone, Debug)]
struct Held {
    request: u8,
    /// That of its request, until it is converted.
    kind: Kind,
    /// With its present token.
    grant: Grant,
}

impl Held {
    fn lease(&self) -> u32 {
        lease_number(self.grant.lease_id)
    }
}

/// What is granted to nobody after a lease.
#[derive(Clone, Debug)]
struct Delay {
    request: u8,
    /// That of the lease when it ended.
    kind: Kind,
    lease: u32,
    token: FencingToken,
    slot: Option<NonZeroU32>,
    min_hold_over: StoreTime,
    lock_delay_over: StoreTime,
}

impl History {
    pub(super) fn follow(&mut self, step: Step, actual: &Actual<'_>) {
        if !step.acts() {
            // Only a command that acts reads the time, which may have moved forward and back before.
            return;
        }
        // After a step back of the clock, times in the future count as now.
        self.facts.iter_mut().for_each(|fact| fact.at = fact.at.min(actual.now));
        self.facts.retain(|fact| actual.now < fact.at.after(MEMORY));
        for delay in &mut self.delays {
            let (min_hold, lock_delay) = delays(delay.request);
            delay.min_hold_over = delay.min_hold_over.min(actual.now.after(min_hold));
            delay.lock_delay_over = delay.lock_delay_over.min(actual.now.after(lock_delay));
        }
        let ended = self.check_ends(actual);
        self.follow_delay(step, actual);
        match actual.answer {
            Outcome::Acquire(outcome) => self.check_acquire(step, outcome, actual),
            Outcome::Release(outcome) => {
                let Step::Release { lease } = step else { unreachable!() };
                let released = matches!(outcome, ReleaseOutcome::Released).then_some(lease);
                assert_eq!(only(LeaseEnd::Released, &ended), released, "a release ends its own lease and reports that");
            }
            Outcome::Renew(RenewOutcome::Renewed(renewed)) => {
                let mut held = self.held.iter().map(|it| (it.grant.token, it.lease()));
                let named = match step {
                    Step::Renew { lease, .. } | Step::RenewKept { lease, .. } | Step::Attach { lease, .. } => lease,
                    _ => unreachable!(),
                };
                assert!(held.any(|it| it == (renewed.token, named)), "only a lease that holds the lock is renewed");
                assert!(!renewed.left.is_zero() && renewed.left <= renewed.ttl);
            }
            Outcome::Revoke(outcome) => {
                let revoked = if let RevokeOutcome::Revoked(of) = outcome { Some(of) } else { None };
                let lease = only(LeaseEnd::Revoked, &ended);
                assert!(revoked.is_some() || lease.is_none(), "each revocation is reported");
                if let Some(revoked) = revoked {
                    // The command may name a lease that expires in its turn, whose delay has not the highest token.
                    let tokens = self.delays.iter().filter(|it| holder(it.request) == *revoked).map(|it| it.token);
                    let named = if step == Step::ForceReleaseGhost { tokens.min() } else { tokens.max() };
                    let before = self.delays.len();
                    self.delays.retain(|it| lease.map_or(Some(it.token) != named, |lease| it.lease != lease));
                    assert!(lease.is_some() || self.delays.len() < before, "a revocation ends something");
                }
            }
            Outcome::Convert(outcome) => self.check_convert(step, outcome, actual),
            Outcome::Renew(_) | Outcome::View(_) | Outcome::Done => {}
            Outcome::Describe(_) | Outcome::Waiters(_) => unreachable!("no step describes, or lists waiters"),
        }
        let granted: Vec<_> = granted(actual).collect();
        let answered = match actual.answer {
            Outcome::Acquire(AcquireOutcome::Granted(grant)) => vec![grant.token],
            _ => vec![],
        };
        assert!(granted.is_empty() || granted == answered, "the answer tells what is granted");
    }

    /// Notes the delay after a lease that ends, and that its holder has stopped.
    fn follow_delay(&mut self, step: Step, actual: &Actual<'_>) {
        for effect in actual.effects {
            let Effect::Ended { lease, end } = effect else { continue };
            let (request, at) = (request_number(lease.request), actual.now);
            let at = if *end == LeaseEnd::Expired { lease.expires_at } else { at };
            let (min_hold, lock_delay) = delays(request);
            let lock_delay_over = if *end == LeaseEnd::Released { at } else { at.after(lock_delay) };
            let (kind, slot) = match &lease.terms.mode {
                Mode::Exclusive => (Kind::Exclusive, None),
                Mode::Shared => (Kind::Shared, None),
                Mode::Semaphore(permits) => (Kind::Semaphore(permits.count, permits.limit), permits.slot),
            };
            let min_hold_over = lease.granted_at.min(at).after(min_hold);
            let (lease, token) = (lease_number(lease.lease_id), lease.token);
            self.delays.push(Delay { request, kind, lease, token, slot, min_hold_over, lock_delay_over });
        }
        for delay in &mut self.delays {
            if matches!(step, Step::Release { lease } if lease == delay.lease) {
                delay.lock_delay_over = delay.lock_delay_over.min(actual.now);
            }
        }
        self.delays.retain(|delay| actual.now < delay.min_hold_over.max(delay.lock_delay_over));
    }

    /// Each end is reported once, for a lease that held the lock. Those whose time ran out end in the order of time.
    fn check_ends(&mut self, actual: &Actual<'_>) -> Vec<(u32, LeaseEnd)> {
        let (mut ends, mut expired) = (Vec::new(), Vec::new());
        for effect in actual.effects {
            let Effect::Ended { lease, end } = effect else { continue };
            let index = self.held.iter().position(|it| it.grant.token == lease.token);
            let Held { request, grant, .. } = self.held.remove(index.expect("only granted leases end"));
            assert_eq!((grant.lease_id, grant.grant_id), (lease.lease_id, lease.grant_id));
            assert_eq!(request, request_number(lease.request));
            assert_eq!(lease.terms.mode.permits().and_then(|permits| permits.slot), grant.slot);
            assert!(!self.ended.contains(&lease_number(lease.lease_id)), "a lease ends once");
            self.ended.push(lease_number(lease.lease_id));
            let at = if *end == LeaseEnd::Expired { lease.expires_at } else { actual.now };
            assert!(at <= actual.now, "no lease expires early");
            if actual.now < at.after(MEMORY) {
                self.record(request, FactKind::LeaseEnded, at);
            }
            if *end == LeaseEnd::Expired {
                expired.push((at, lease.token));
            }
            ends.push((lease_number(lease.lease_id), *end));
        }
        assert!(expired.is_sorted(), "what ends first is reported first");
        ends
    }

    fn check_acquire(&mut self, step: Step, outcome: &AcquireOutcome, actual: &Actual<'_>) {
        let (request, attempt) = match step {
            Step::Acquire { request, attempt, .. }
            | Step::AcquireOther { request, attempt }
            | Step::Keep { request, attempt }
            | Step::Claim { request, attempt, .. }
            | Step::GiveUp { request, attempt, .. } => (request, attempt),
            _ => unreachable!(),
        };
        let in_force = matches!(outcome, AcquireOutcome::Granted(_) | AcquireOutcome::Queued | AcquireOutcome::Shared);
        let fresh = granted(actual).next().is_some();
        // Ends in this turn (by expiry) come before the answer.
        for fact in self.facts.iter().filter(|fact| fact.request == request) {
            match fact.kind {
                FactKind::Bound(newest) => {
                    assert!(attempt >= newest || !in_force, "an overtaken attempt gets no lease");
                }
                FactKind::TimedOut | FactKind::LeaseEnded => {
                    assert!(!in_force && !fresh, "an ended request gets no lease: {step:?} {outcome:?}");
                }
            }
        }
        match outcome {
            AcquireOutcome::Granted(grant) if fresh => {
                let is_beside = |other: Kind| match (kind(request), other) {
                    (Kind::Semaphore(..), Kind::Semaphore(..)) => true,
                    (one, other) => one == Kind::Shared && other == Kind::Shared,
                };
                let is_beside_held = self.held.iter().all(|other| is_beside(other.kind));
                assert!(is_beside_held, "leases of other modes are not beside each other");
                let is_beside_delayed = self.delays.iter().all(|other| is_beside(other.kind));
                assert!(is_beside_delayed, "nothing is granted within a delay that excludes it");
                let is_occupied = grant.slot.is_some() && self.delays.iter().any(|other| other.slot == grant.slot);
                assert!(!is_occupied, "a slot is free after the delay");
                let is_of_one = kind(request).permits() == Some(1);
                assert_eq!(grant.slot.is_some(), is_of_one, "a lease of one permit has a slot");
                let has_slot = |other: &Held| grant.slot.is_some() && other.grant.slot == grant.slot;
                assert!(!self.held.iter().any(has_slot), "a slot is of one lease");
                assert!(!self.ended.contains(&lease_number(grant.lease_id)), "no lease is granted again");
                assert!(grant.token.get() > self.highest_token, "tokens rise");
                self.highest_token = grant.token.get();
                self.granted += 1;
                self.held.push(Held { request, kind: kind(request), grant: *grant });
            }
            AcquireOutcome::Granted(grant) => {
                let held = self.held.iter().find(|it| it.request == request);
                let held = &held.expect("a reported grant is current").grant;
                let same = |it: &Grant| (it.lease_id, it.grant_id, it.token, it.previous_end, it.slot);
                assert_eq!(same(held), same(grant), "a repeat gets the same lease");
            }
            AcquireOutcome::TimedOut(_)
                if !self.facts.iter().any(|it| (it.request, it.kind) == (request, FactKind::TimedOut)) =>
            {
                self.record(request, FactKind::TimedOut, actual.now);
            }
            _ => {}
        }
        if in_force && !matches!(step, Step::GiveUp { .. }) {
            self.record(request, FactKind::Bound(attempt), actual.now);
        }
    }

    /// A conversion keeps the lease. Only an upgrade draws a token, and it leaves one holder.
    fn check_convert(&mut self, step: Step, outcome: &ConvertOutcome, actual: &Actual<'_>) {
        let Step::Convert { lease, shared, .. } = step else { unreachable!() };
        let converted = actual.effects.iter().filter_map(|effect| match effect {
            Effect::Changed { token, .. } => Some(*token),
            _ => None,
        });
        let converted: Vec<_> = converted.collect();
        let is_alone = self.held.len() == 1;
        let held = self.held.iter_mut().find(|it| it.lease() == lease);
        let ConvertOutcome::Converted(answer) = outcome else {
            assert_eq!(converted, [], "a refusal converts nothing");
            let is_lost = matches!(outcome, ConvertOutcome::Lost(_));
            assert_eq!(is_lost, held.is_none(), "a lease that holds the lock is not lost: {outcome:?}");
            return;
        };
        let held = held.expect("only a lease that holds the lock is converted");
        let kind = if shared { Kind::Shared } else { Kind::Exclusive };
        assert!(!answer.left.is_zero() && answer.left <= answer.ttl);
        if converted.is_empty() {
            assert_eq!((held.kind, held.grant.token), (kind, answer.token), "a repeat answers the lease as it is");
            return;
        }
        assert_eq!(converted, [answer.token], "one lease is converted");
        assert!(held.kind != kind || !shared, "a shared lease stays as it is");
        held.kind = kind;
        if shared {
            assert_eq!(held.grant.token, answer.token, "a downgrade keeps the token");
        } else {
            assert!(is_alone && self.delays.is_empty(), "an upgrade leaves one holder, and nothing of others");
            assert!(answer.token.get() > self.highest_token, "tokens rise");
            held.grant.token = answer.token;
            self.highest_token = answer.token.get();
        }
    }

    fn record(&mut self, request: u8, kind: FactKind, at: StoreTime) {
        self.facts.retain(|fact| (fact.request, fact.kind) != (request, kind));
        self.facts.push(Fact { request, kind, at });
    }

    pub(super) fn granted(&self) -> u32 {
        self.granted
    }

    /// Forgets the ended leases that are not remembered, for a search that reuses their numbers.
    pub(super) fn forget_leases(&mut self, remembered: &[u32]) {
        self.ended.retain(|lease| remembered.contains(lease));
    }
}

/// The tokens that a turn granted.
fn granted(actual: &Actual<'_>) -> impl Iterator<Item = FencingToken> {
    actual.effects.iter().filter_map(|effect| match effect {
        Effect::Granted(token) => Some(*token),
        _ => None,
    })
}

/// The lease that ended in this way. A command ends one at most; time alone may end several.
fn only(end: LeaseEnd, ended: &[(u32, LeaseEnd)]) -> Option<u32> {
    let mut leases = ended.iter().filter(|(_, it)| *it == end).map(|(lease, _)| *lease);
    let lease = leases.next();
    assert_eq!(leases.next(), None, "one command ends one lease");
    lease
}
