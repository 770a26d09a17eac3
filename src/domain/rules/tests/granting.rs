//! Grants and refusals of the lock.

use super::*;

#[test]
fn a_free_lock_is_granted_at_once_for_its_ttl() {
    let mut bench = Bench::new();
    let grant = bench.try_acquire(A, 1).granted();
    assert_eq!(grant.left, TTL);
    assert_eq!(grant.previous_end, None);
    assert_eq!(bench.effects.as_slice(), [Effect::Granted(grant.token)]);
}

#[test]
fn a_try_of_a_held_lock_returns_its_holder() {
    let (mut bench, held) = Bench::held_with_waiters(&[B]);
    bench.pass(secs(10));
    let AcquireOutcome::Contended(contention) = bench.try_acquire(C, 1) else { panic!("the lock is held") };
    let current = contention.current.unwrap();
    assert_eq!((current.holder.as_str(), current.token, current.grant_id), ("1", held.token, held.grant_id));
    assert_eq!((current.left, current.held), (secs(20), secs(10)));
    assert_eq!(contention.waiters, 1);
    assert!(bench.effects.is_empty());
}

#[test]
fn a_refused_try_does_not_end_its_request() {
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    assert!(matches!(bench.try_acquire(B, 1), AcquireOutcome::Contended(_)));
    bench.release(&held);
    bench.try_acquire(B, 1).granted();
}

#[test]
fn a_repeat_returns_the_same_lease_with_its_time_left() {
    let mut bench = Bench::new();
    let first = bench.acquire(A, 1).granted();
    let again = bench.pass(secs(10)).acquire(A, 1).granted();
    assert_eq!(again, Grant { left: secs(20), ..first });
    let newer = bench.try_acquire(A, 2).granted();
    assert_eq!(newer, again);
    assert_eq!(bench.ends(), []);
}

#[test]
fn a_try_during_an_offer_is_refused_without_a_holder() {
    let (mut bench, held) = Bench::held_with_waiters(&[B]);
    bench.release(&held);
    let AcquireOutcome::Contended(contention) = bench.try_acquire(C, 1) else { panic!("the lock is on offer") };
    assert_eq!(contention.current, None);
    assert_eq!(bench.acquire(D, 1), AcquireOutcome::Queued, "an offer is not overtaken");
}

#[test]
fn every_grant_says_how_the_previous_lease_ended() {
    let mut bench = Bench::new();
    let first = bench.acquire(1, 1).granted();
    bench.release(&first);
    let second = bench.acquire(2, 1).granted();
    assert_eq!(second.previous_end, Some(LeaseEnd::Released));
    bench.force_release(second.token);
    let third = bench.acquire(3, 1).granted();
    assert_eq!(third.previous_end, Some(LeaseEnd::Revoked));
    let fourth = bench.pass(TTL).acquire(4, 1).granted();
    assert_eq!(fourth.previous_end, Some(LeaseEnd::Expired));
    assert_eq!(bench.view().previous_end, Some(LeaseEnd::Expired));
    let tokens = [first.token, second.token, third.token, fourth.token];
    assert!(tokens.is_sorted_by(|before, after| before < after));
}

#[test]
fn the_end_of_the_previous_lease_is_remembered_for_10_s() {
    for (wait, remembered) in [(secs(10) - MICRO, Some(LeaseEnd::Released)), (secs(10), None)] {
        let (mut bench, held) = Bench::held_with_waiters(&[]);
        bench.release(&held);
        assert_eq!(bench.pass(wait).view().previous_end, remembered);
        assert_eq!(bench.acquire(B, 1).granted().previous_end, remembered);
    }
}

#[test]
fn a_lapsed_offer_does_not_change_the_end_of_the_previous_lease() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    bench.release(&held);
    let grant = bench.pass(secs(3)).claim(C, 1).granted();
    assert_eq!(grant.previous_end, Some(LeaseEnd::Released));
}

#[test]
fn a_request_is_neither_granted_nor_queued_when_no_tokens_are_left() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    bench.sequencer.draw(crate::domain::limits::TOKEN_END - 1).unwrap();
    bench.release(&held);
    assert_eq!(bench.claim(B, 1), AcquireOutcome::TokensExhausted);
    assert_eq!(bench.woken(), [(C, 1)], "the next waiter is offered the lock");
    assert_eq!(bench.view().waiters, 1);
    assert_eq!(bench.claim(C, 1), AcquireOutcome::TokensExhausted);
    assert_eq!(bench.acquire(D, 1), AcquireOutcome::TokensExhausted);
}
