//! Views of a lock. They are computed for the moment of the call and change nothing.

use super::*;

#[test]
fn the_view_of_a_lock_that_was_never_acquired_is_empty() {
    let bench = Bench::new();
    assert_eq!(bench.view(), LockView::default());
    assert_eq!(bench.status(FencingToken::new(1).unwrap()), TokenStatus::Unknown);
    assert!(bench.lock.is_idle() && !bench.lock.is_in_use(bench.now));
    assert_eq!(bench.lock.next_due(), None);
}

#[test]
fn a_token_is_current_then_ended_then_stale() {
    let (mut bench, first) = Bench::held_with_waiters(&[]);
    let above = FencingToken::new(first.token.get() + 1).unwrap();
    assert_eq!(bench.status(first.token), TokenStatus::Current);
    assert_eq!(bench.status(above), TokenStatus::Unknown, "never granted");
    bench.release(&first);
    assert_eq!(bench.status(first.token), TokenStatus::Ended);
    let second = bench.acquire(B, 1).granted();
    assert_eq!(bench.status(first.token), TokenStatus::Stale);
    assert_eq!(bench.status(second.token), TokenStatus::Current);
    bench.release(&second);
    assert_eq!(bench.status(first.token), TokenStatus::Stale);
    bench.pass(secs(10) - MICRO);
    assert_eq!(bench.status(second.token), TokenStatus::Ended);
    bench.pass(MICRO);
    assert_eq!(bench.status(second.token), TokenStatus::Unknown, "the token is forgotten");
}

#[test]
fn the_view_shows_an_expiry_before_any_command_applies_it() {
    let (mut bench, grant) = Bench::held_with_waiters(&[B]);
    bench.pass(TTL - MICRO);
    assert_eq!(bench.status(grant.token), TokenStatus::Current);
    assert_eq!(bench.view().current.unwrap().left, MICRO);
    bench.pass(MICRO);
    assert_eq!(bench.status(grant.token), TokenStatus::Ended);
    let seen = bench.view();
    assert_eq!((seen.current.as_ref(), seen.previous_end), (None, Some(LeaseEnd::Expired)));
    assert_eq!((seen.waiters, seen.newest_token), (1, Some(grant.token)));
    bench.apply_time();
    assert_eq!(bench.view(), seen, "settling does not change the view");
}

#[test]
fn a_lock_is_in_use_while_it_has_a_holder_or_a_waiter() {
    let (mut bench, held) = Bench::held_with_waiters(&[B]);
    assert!(bench.lock.is_in_use(bench.now));
    bench.release(&held);
    assert!(bench.lock.is_in_use(bench.now), "it has a waiter");
    bench.give_up(B, 1);
    assert!(!bench.lock.is_in_use(bench.now));
    assert!(!bench.lock.is_idle(), "the ended lease is remembered");
}

#[test]
fn next_due_is_the_time_of_the_next_change() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    let start = bench.now;
    assert_eq!(bench.lock.next_due(), Some(start.after(TTL)));
    bench.drop_call(C, 1);
    assert_eq!(bench.lock.next_due(), Some(start.after(secs(3))), "the dropped call's queue position");
    assert_eq!(bench.pass(secs(1)).acquire(C, 2), AcquireOutcome::Queued);
    assert_eq!(bench.lock.next_due(), Some(start.after(TTL)), "the dropped call was retried");
    bench.release(&held);
    assert_eq!(bench.lock.next_due(), Some(start.after(secs(4))), "the offer");
}
