//! Requests and leases that have ended stay ended.

use super::*;

#[test]
fn a_late_duplicate_of_a_released_request_is_refused_for_10_s() {
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    bench.release(&held);
    for attempt in [1, 2, 1] {
        assert_eq!(bench.acquire(A, attempt), AcquireOutcome::Ended);
    }
    assert_eq!(bench.claim(A, 1), AcquireOutcome::Ended);
    assert_eq!(bench.pass(secs(10) - MICRO).acquire(A, 1), AcquireOutcome::Ended);
    assert!(bench.effects.is_empty());
    let second = bench.pass(MICRO).acquire(A, 1).granted();
    assert!(second.lease_id != held.lease_id && second.token > held.token);
}

#[test]
fn a_late_duplicate_of_a_request_that_timed_out_times_out_again_for_10_s() {
    let (mut bench, held) = Bench::held_with_waiters(&[B]);
    assert!(bench.give_up(B, 1).is_timed_out());
    bench.release(&held);
    assert!(bench.acquire(B, 1).is_timed_out(), "even though the lock is free");
    assert!(bench.claim(B, 1).is_timed_out());
    assert!(bench.give_up(B, 2).is_timed_out());
    assert!(bench.pass(secs(10) - MICRO).try_acquire(B, 2).is_timed_out());
    bench.pass(MICRO).try_acquire(B, 2).granted();
}

#[test]
fn an_end_is_remembered_from_its_own_time_not_from_when_it_was_noticed() {
    let (mut bench, _) = Bench::held_with_waiters(&[]);
    assert_eq!(bench.pass(TTL + secs(10) - MICRO).acquire(A, 1), AcquireOutcome::Ended);
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    bench.pass(TTL + secs(10)).apply_time();
    assert!(bench.lock.is_idle());
    assert_eq!(bench.renew(&held, None), RenewOutcome::Lost(Gone { fate: Fate::Unknown, successor: None }));
}

#[test]
fn a_repeated_release_is_answered_with_the_end_of_the_lease_for_10_s() {
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    assert_eq!(bench.release(&held), ReleaseOutcome::Released);
    assert_eq!(bench.ends(), [LeaseEnd::Released]);
    assert_eq!(bench.release(&held), ReleaseOutcome::Gone(ended(LeaseEnd::Released, None)));
    assert!(bench.effects.is_empty(), "an end is announced once");
    bench.pass(secs(10));
    let unknown = ReleaseOutcome::Gone(Gone { fate: Fate::Unknown, successor: None });
    assert_eq!(bench.release(&held), unknown);
}

#[test]
fn a_release_never_touches_the_successor() {
    let (mut bench, held) = Bench::held_with_waiters(&[B]);
    bench.pass(TTL).apply_time();
    let next = bench.claim(B, 1).granted();
    let lost = ended(LeaseEnd::Expired, Some(next.token));
    assert_eq!(bench.release(&held), ReleaseOutcome::Gone(lost));
    assert_eq!(bench.renew(&held, None), RenewOutcome::Lost(lost));
    assert_eq!(bench.attach(&held, 1, stream(1)), RenewOutcome::Lost(lost));
    assert_eq!(bench.view().current.unwrap().token, next.token);
    bench.pass(secs(10));
    let superseded = Gone { fate: Fate::Superseded, successor: Some(next.token) };
    assert_eq!(bench.release(&held), ReleaseOutcome::Gone(superseded));
}

#[test]
fn an_expired_lease_is_never_revived_even_if_the_lock_is_free() {
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    bench.pass(TTL - MICRO).renew(&held, None).left();
    let lost = RenewOutcome::Lost(ended(LeaseEnd::Expired, None));
    assert_eq!(bench.pass(TTL).renew(&held, None), lost);
    assert_eq!(bench.ends(), [LeaseEnd::Expired]);
    assert_eq!(bench.attach(&held, 1, stream(1)), lost);
    assert_eq!(bench.renew(&held, secs(60)), lost);
    assert!(bench.effects.is_empty());
    assert_eq!(bench.acquire(A, 2), AcquireOutcome::Ended, "its request does not revive it either");
}

#[test]
fn a_released_lease_cannot_be_renewed() {
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    bench.attach(&held, 1, stream(1));
    bench.release(&held);
    assert_eq!(bench.renew_attached(&held, stream(1)), RenewOutcome::Lost(ended(LeaseEnd::Released, None)));
    assert_eq!(bench.view().current, None);
}

#[test]
fn a_lock_becomes_idle_when_its_last_memory_expires() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    bench.release(&held);
    bench.give_up(B, 1);
    bench.drop_call(C, 1);
    bench.drop_call(D, 1);
    assert!(!bench.lock.is_idle());
    let mut turns = 0;
    while let Some(due) = bench.lock.next_due() {
        assert!(bench.now < due, "the next change is in the future");
        bench.now = due;
        bench.apply_time();
        turns += 1;
    }
    assert!(bench.lock.is_idle());
    assert_eq!(turns, 4, "D's tombstone, C's queue position, the ends of A and B, the end of C");
}

#[test]
fn more_ends_than_a_batch_are_forgotten_over_several_turns() {
    let mut bench = Bench::new();
    bench.waiters_max = 1_000;
    bench.acquire(A, 1).granted();
    for waiter in 100..300 {
        bench.acquire(waiter, 1);
        bench.drop_call(waiter, 1);
    }
    bench.pass(secs(3));
    assert_eq!(bench.view().waiters, 0);
    bench.waiters_max = 1;
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued, "ended waiters that are not deleted yet do not count");
    for _ in 0..4 {
        bench.apply_time();
    }
    assert_eq!(bench.acquire(299, 2), AcquireOutcome::Ended);
    bench.pass(secs(10));
    for _ in 0..4 {
        bench.apply_time();
    }
    bench.waiters_max = 10;
    assert_eq!(bench.acquire(299, 2), AcquireOutcome::Queued);
}
