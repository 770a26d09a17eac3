//! First come, first served; offers that are claimed, declined, or lapse.

use super::*;

#[test]
fn a_release_offers_the_lock_to_the_first_waiter_which_claims_it() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    assert_eq!(bench.release(&held), ReleaseOutcome::Released);
    assert_eq!(bench.woken(), [(B, 1)], "one release wakes one waiter");
    assert_eq!(bench.claim(C, 1), AcquireOutcome::Queued);
    let grant = bench.pass(secs(2)).claim(B, 1).granted();
    assert_eq!(grant.left, TTL, "the TTL begins with the claim");
    assert!(grant.token > held.token);
    assert_eq!(bench.effects.as_slice(), [Effect::Granted(grant.token)]);
}

#[test]
fn a_repeated_claim_returns_the_same_lease() {
    let (mut bench, held) = Bench::held_with_waiters(&[B]);
    bench.release(&held);
    let first = bench.claim(B, 1).granted();
    let again = bench.pass(secs(1)).claim(B, 1).granted();
    assert_eq!(again, Grant { left: first.left - secs(1), ..first });
    assert!(bench.effects.is_empty());
}

#[test]
fn waiters_are_served_in_order_even_if_later_ones_claim_first() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C, D]);
    let mut holder = held;
    for next in [B, C, D] {
        bench.release(&holder);
        for other in [D, C, B].into_iter().filter(|other| *other > next) {
            assert_eq!(bench.claim(other, 1), AcquireOutcome::Queued);
        }
        holder = bench.claim(next, 1).granted();
    }
}

#[test]
fn any_command_applies_an_expiry_that_is_due() {
    let (mut bench, _) = Bench::held_with_waiters(&[B, C]);
    assert_eq!(bench.pass(TTL - MICRO).claim(C, 1), AcquireOutcome::Queued);
    assert!(bench.effects.is_empty());
    assert_eq!(bench.pass(MICRO).claim(C, 1), AcquireOutcome::Queued);
    assert_eq!(bench.ends(), [LeaseEnd::Expired]);
    assert_eq!(bench.woken(), [(B, 1)]);
    bench.claim(B, 1).granted();
}

#[test]
fn an_offer_lapses_after_3_s_and_the_next_waiter_is_served() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    bench.release(&held);
    bench.pass(secs(3) - MICRO).apply_time();
    assert_eq!(bench.woken(), []);
    bench.pass(MICRO).apply_time();
    assert_eq!(bench.woken(), [(C, 1)]);
    assert_eq!(bench.ends(), [], "an offer is no lease");
    bench.claim(C, 1).granted();
}

#[test]
fn a_waiter_that_missed_its_offer_is_skipped_until_it_claims_and_keeps_its_position() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C, D]);
    bench.release(&held);
    let grant = bench.pass(secs(3)).claim(C, 1).granted();
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Queued);
    bench.release(&grant);
    assert_eq!(bench.woken(), [(B, 1)], "before D");
    bench.claim(B, 1).granted();
}

#[test]
fn a_claim_of_a_waiter_that_missed_its_offer_is_granted_at_once_if_the_lock_is_free() {
    let (mut bench, held) = Bench::held_with_waiters(&[B]);
    bench.release(&held);
    bench.pass(secs(100)).apply_time();
    assert_eq!(bench.woken(), []);
    bench.claim(B, 1).granted();
}

#[test]
fn a_newcomer_takes_a_free_lock_that_all_waiters_missed() {
    let (mut bench, held) = Bench::held_with_waiters(&[B]);
    bench.release(&held);
    let grant = bench.pass(secs(3)).try_acquire(C, 1).granted();
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Queued);
    bench.release(&grant);
    assert_eq!(bench.woken(), [(B, 1)]);
}

#[test]
fn a_waiter_that_gives_up_leaves_the_queue() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    let AcquireOutcome::TimedOut(contention) = bench.give_up(B, 1) else { panic!("the wait is over") };
    assert_eq!(contention.waiters, 1, "without the waiter that gave up");
    assert_eq!(contention.current.map(|current| current.token), Some(held.token));
    bench.release(&held);
    assert_eq!(bench.woken(), [(C, 1)]);
}

#[test]
fn giving_up_an_offer_passes_it_to_the_next_waiter_at_once() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    bench.release(&held);
    assert!(bench.give_up(B, 1).is_timed_out());
    assert_eq!(bench.woken(), [(C, 1)]);
}

#[test]
fn giving_up_after_the_grant_returns_the_lease() {
    let (mut bench, held) = Bench::held_with_waiters(&[B]);
    bench.release(&held);
    let grant = bench.claim(B, 1).granted();
    assert_eq!(bench.give_up(B, 1).granted(), grant);
}

#[test]
fn a_request_leaves_the_queue_when_its_last_call_gives_up() {
    let (mut bench, _) = Bench::held_with_waiters(&[B]);
    bench.call_id = 2;
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued);
    assert_eq!(bench.give_up(B, 1), AcquireOutcome::Shared);
    assert_eq!(bench.give_up(B, 1), AcquireOutcome::Shared, "a repeat counts once");
    assert_eq!(bench.view().waiters, 1);
    bench.call_id = 1;
    assert!(bench.give_up(B, 1).is_timed_out());
    assert_eq!(bench.view().waiters, 0);
}

#[test]
fn a_try_of_a_queued_request_ends_its_wait_and_wakes_its_other_calls() {
    let (mut bench, _) = Bench::held_with_waiters(&[B]);
    assert!(bench.try_acquire(B, 2).is_timed_out());
    assert_eq!(bench.woken(), [(B, 1)], "the overtaken call");
    assert_eq!(bench.view().waiters, 0);

    let (mut bench, _) = Bench::held_with_waiters(&[B]);
    assert!(bench.try_acquire(B, 1).is_timed_out());
    assert_eq!(bench.woken(), [(B, 1)], "the call of the same attempt");
    assert!(bench.claim(B, 1).is_timed_out());
}

#[test]
fn claims_and_give_ups_of_an_unknown_request_answer_unknown() {
    let mut bench = Bench::new();
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Unknown);
    assert_eq!(bench.give_up(B, 1), AcquireOutcome::Unknown);
    assert!(bench.lock.is_idle());
}

#[test]
fn a_waiter_learns_an_upper_bound_of_its_queue_position() {
    let (mut bench, grant) = Bench::held_with_waiters(&[B, C, D]);
    let ahead = |bench: &Bench| [A, B, C, D].map(|number| bench.lock.ahead(RequestId(Uuid::from_u128(number))));
    assert_eq!(ahead(&bench), [None, Some(0), Some(1), Some(2)]);
    bench.give_up(C, 1);
    assert_eq!(
        ahead(&bench),
        [None, Some(0), None, Some(2)],
        "a waiter that left the middle of the queue still counts"
    );
    bench.release(&grant);
    assert_eq!(ahead(&bench), [None, Some(0), None, Some(0)], "the lock is offered to the first");
}
