//! Guarantees that can be checked on the answers alone, without a model of the lock.

use super::{Step, lease_number, oracle::Actual, request_number};
use fencepost::testing::domain::{
    command::{Effect, Outcome},
    lease::LeaseEnd,
    outcome::{AcquireOutcome, Grant, ReleaseOutcome, RenewOutcome, RevokeOutcome},
    time::StoreTime,
};
use std::time::Duration;

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
    held: Option<(u8, Grant)>,
    ended: Vec<u32>,
    highest_token: u64,
    granted: u32,
    facts: Vec<Fact>,
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
        let ended = self.check_ends(actual);
        match actual.answer {
            Outcome::Acquire(outcome) => self.check_acquire(step, outcome, actual),
            Outcome::Release(outcome) => {
                let released = matches!(outcome, ReleaseOutcome::Released);
                assert_eq!(released, ended.contains(&LeaseEnd::Released), "each release ends a lease and reports that");
            }
            Outcome::Renew(RenewOutcome::Renewed(renewed)) => {
                let held = self.held.as_ref().map(|(_, grant)| (grant.token, lease_number(grant.lease_id)));
                let named = match step {
                    Step::Renew { lease, .. } | Step::RenewKept { lease, .. } | Step::Attach { lease, .. } => lease,
                    _ => unreachable!(),
                };
                assert_eq!(held, Some((renewed.token, named)), "only the current lease is renewed");
                assert!(!renewed.left.is_zero() && renewed.left <= renewed.ttl);
            }
            Outcome::Revoke(outcome) => {
                let revoked = matches!(outcome, RevokeOutcome::Revoked(_));
                assert_eq!(
                    revoked,
                    ended.contains(&LeaseEnd::Revoked),
                    "each revocation ends a lease and reports that"
                );
            }
            Outcome::Renew(_) | Outcome::View(_) | Outcome::Done => {}
        }
        let granted = actual.effects.iter().filter(|effect| **effect == Effect::Granted).count();
        assert!(granted == 0 || matches!(actual.answer, Outcome::Acquire(AcquireOutcome::Granted(_))));
    }

    /// Each end is reported once, for the lease that held the lock.
    fn check_ends(&mut self, actual: &Actual<'_>) -> Vec<LeaseEnd> {
        let mut ends = Vec::new();
        for effect in actual.effects {
            let Effect::Ended { lease, end } = effect else { continue };
            let (request, grant) = self.held.take().expect("only granted leases end");
            assert_eq!((grant.lease_id, grant.token), (lease.lease_id, lease.token));
            assert_eq!(request, request_number(lease.request));
            assert!(!self.ended.contains(&lease_number(lease.lease_id)), "a lease ends once");
            self.ended.push(lease_number(lease.lease_id));
            let at = if *end == LeaseEnd::Expired { lease.expires_at } else { actual.now };
            assert!(at <= actual.now, "no lease expires early");
            if actual.now < at.after(MEMORY) {
                self.record(request, FactKind::LeaseEnded, at);
            }
            ends.push(*end);
        }
        ends
    }

    fn check_acquire(&mut self, step: Step, outcome: &AcquireOutcome, actual: &Actual<'_>) {
        let (request, attempt) = match step {
            Step::Acquire { request, attempt, .. }
            | Step::AcquireOther { request, attempt }
            | Step::Claim { request, attempt, .. }
            | Step::GiveUp { request, attempt, .. } => (request, attempt),
            _ => unreachable!(),
        };
        let in_force = matches!(outcome, AcquireOutcome::Granted(_) | AcquireOutcome::Queued | AcquireOutcome::Shared);
        let fresh = actual.effects.contains(&Effect::Granted);
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
                assert!(self.held.is_none(), "at most one lease");
                assert!(!self.ended.contains(&lease_number(grant.lease_id)), "no lease is granted again");
                assert!(grant.token.get() > self.highest_token, "tokens rise");
                self.highest_token = grant.token.get();
                self.granted += 1;
                self.held = Some((request, *grant));
            }
            AcquireOutcome::Granted(grant) => {
                let (holder, held) = self.held.as_ref().expect("a reported grant is current");
                assert_eq!(*holder, request);
                let same = |it: &Grant| (it.lease_id, it.grant_id, it.token, it.previous_end);
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
