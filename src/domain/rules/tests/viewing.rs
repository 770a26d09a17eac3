//! What anybody may see: computed for its moment, changing nothing.

use super::*;

#[test]
fn a_lock_that_was_never_taken_shows_nothing() {
    let bench = Bench::new();
    assert_eq!(bench.view(), LockView::default());
    assert_eq!(bench.status(FencingToken::new(1).unwrap()), TokenStatus::Unknown);
    assert!(bench.lock.is_idle() && !bench.lock.is_in_use(bench.now));
    assert_eq!(bench.lock.next_due(), None);
}

#[test]
fn a_token_is_current_then_ended_then_stale() {
    let (mut bench, first) = Bench::held_and_wanted_by(&[]);
    let above = FencingToken::new(first.token.get() + 1).unwrap();
    assert_eq!(bench.status(first.token), TokenStatus::Current);
    assert_eq!(bench.status(above), TokenStatus::Unknown, "nobody has it yet");
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
    assert_eq!(bench.status(second.token), TokenStatus::Unknown, "what is forgotten vouches for nothing");
}

#[test]
fn an_expiry_is_seen_before_anybody_clears_it_away() {
    let (mut bench, grant) = Bench::held_and_wanted_by(&[B]);
    bench.pass(TTL - MICRO);
    assert_eq!(bench.status(grant.token), TokenStatus::Current);
    assert_eq!(bench.view().current.unwrap().left, MICRO);
    bench.pass(MICRO);
    assert_eq!(bench.status(grant.token), TokenStatus::Ended);
    let seen = bench.view();
    assert_eq!((seen.current.as_ref(), seen.previous_end), (None, Some(LeaseEnd::Expired)));
    assert_eq!((seen.waiters, seen.newest_token), (1, Some(grant.token)));
    bench.settle();
    assert_eq!(bench.view(), seen, "the same before and after");
}

#[test]
fn a_lock_is_in_use_while_it_is_held_or_wanted() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B]);
    assert!(bench.lock.is_in_use(bench.now));
    bench.release(&held);
    assert!(bench.lock.is_in_use(bench.now), "wanted");
    bench.give_up(B, 1);
    assert!(!bench.lock.is_in_use(bench.now));
    assert!(!bench.lock.is_idle(), "but not forgotten");
}

#[test]
fn the_next_change_is_known_ahead() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B, C]);
    let start = bench.now;
    assert_eq!(bench.lock.next_due(), Some(start.after(TTL)));
    bench.drop_call(C, 1);
    assert_eq!(bench.lock.next_due(), Some(start.after(secs(3))), "the place of a dropped call");
    assert_eq!(bench.pass(secs(1)).acquire(C, 2), AcquireOutcome::Queued);
    assert_eq!(bench.lock.next_due(), Some(start.after(TTL)), "it came back");
    bench.release(&held);
    assert_eq!(bench.lock.next_due(), Some(start.after(secs(4))), "the offer");
}
