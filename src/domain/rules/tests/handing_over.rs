//! Hand-over: a release, in whose turn the lock is claimed for a waiter.

use super::*;
use crate::domain::rules::Next;

impl Bench {
    fn release_to(&mut self, grant: &Grant, request: u128, attempt: u32) -> Option<AcquireOutcome> {
        let next = Next { call: self.call(request, attempt), candidate: self.candidate() };
        self.turn(|turn| {
            assert_eq!(turn.release(grant.lease_id), ReleaseOutcome::Released);
            turn.claim_offered(turn.replica, |_, _| Some(next)).map(|(_, outcome)| outcome)
        })
    }
}

#[test]
fn a_release_grants_the_lock_to_the_next_waiter_at_once() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    let grant = bench.release_to(&held, B, 1).unwrap().granted();
    assert!(grant.token > held.token);
    assert_eq!((grant.previous_end, grant.left), (Some(LeaseEnd::Released), TTL));
    assert_eq!(bench.woken(), [], "it does not need a wake-up");
    assert_eq!(bench.claim(B, 1).granted(), grant, "its claim returns the same lease");
    bench.release(&grant);
    assert_eq!(bench.woken(), [(C, 1)]);
}

#[test]
fn a_waiter_that_is_not_next_keeps_waiting() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    assert_eq!(bench.release_to(&held, C, 1), None);
    assert_eq!(bench.woken(), [(B, 1)]);
    bench.claim(B, 1).granted();
}

#[test]
fn a_dropped_or_overtaken_call_is_not_granted_the_lock() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    bench.drop_call(B, 1);
    assert_eq!(bench.release_to(&held, B, 1), None);
    assert_eq!(bench.woken(), [(C, 1)]);
    for other_attempt in [1, 3] {
        let (mut bench, held) = Bench::held_with_waiters(&[B]);
        assert_eq!(bench.acquire(B, 2), AcquireOutcome::Queued);
        assert_eq!(bench.release_to(&held, B, other_attempt), None);
        assert_eq!(bench.woken(), [(B, 2)]);
    }
}

#[test]
fn a_call_of_another_replica_is_woken_and_claims_itself() {
    let mut bench = Bench { replicas: Replicas::many_beside(ELSEWHERE), replica: 1, ..Bench::new() };
    let held = bench.acquire(A, 1).granted();
    bench.replica = 2;
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued);
    bench.replica = 1;
    assert_eq!(bench.release_to(&held, B, 1), None);
    assert_eq!(bench.woken(), [(B, 1)]);
}

#[test]
fn each_of_several_readers_is_granted_the_lock_or_woken() {
    for request in [B, C] {
        let (mut bench, held) = Bench::held_with_waiters(&[]);
        for reader in [B, C] {
            assert_eq!(bench.read(reader), AcquireOutcome::Queued);
        }
        let outcome = bench.release_to(&held, request, 1);
        let granted = outcome.map(|outcome| (request, outcome.granted()));
        for (reader, attempt) in [(B, 1), (C, 1)] {
            let is_granted = granted.is_some_and(|(request, _)| request == reader);
            assert_ne!(is_granted, bench.woken().contains(&(reader, attempt)), "{reader}");
        }
        let again = [B, C].map(|reader| (reader, bench.claim(reader, 1).granted()));
        assert!(granted.is_none_or(|granted| again.contains(&granted)), "the same lease");
    }
}
