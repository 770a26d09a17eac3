//! Attempts: the newest is bound, calls of one attempt share the binding, older attempts change nothing.

use super::*;

#[test]
fn a_higher_attempt_takes_over_a_waiter_and_its_queue_position() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    assert_eq!(bench.acquire(B, 2), AcquireOutcome::Queued);
    assert_eq!(bench.woken(), [(B, 1)], "the older call is notified");
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Overtaken);
    assert_eq!(bench.give_up(B, 1), AcquireOutcome::Overtaken);
    bench.release(&held);
    assert_eq!(bench.woken(), [(B, 2)], "same queue position; the offer goes to the newer call");
    bench.claim(B, 2).granted();
}

#[test]
fn a_higher_attempt_takes_over_an_offer_and_is_granted_the_lock_at_once() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    bench.release(&held);
    let grant = bench.acquire(B, 2).granted();
    assert_eq!(bench.woken(), [(B, 1)]);
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Overtaken);
    assert_eq!(bench.claim(B, 2).granted(), grant);
}

#[test]
fn a_higher_attempt_takes_over_a_lease_and_the_cleanup_of_the_older_one_does_nothing() {
    let mut bench = Bench::new();
    let first = bench.acquire(A, 1).granted();
    assert_eq!(bench.acquire(A, 2).granted(), first);
    assert_eq!(bench.woken(), [(A, 1)]);
    bench.drop_call(A, 1);
    assert_eq!(bench.acquire(A, 2).granted().left, TTL);
    assert_eq!(bench.claim(A, 1), AcquireOutcome::Overtaken);
}

#[test]
fn a_lower_attempt_changes_nothing() {
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    assert_eq!(bench.acquire(B, 3), AcquireOutcome::Queued);
    assert_eq!(bench.acquire(B, 2), AcquireOutcome::Overtaken);
    assert_eq!(bench.try_acquire(B, 1), AcquireOutcome::Overtaken);
    assert_eq!(bench.view().waiters, 1);
    bench.drop_call(B, 2);
    bench.release(&held);
    assert_eq!(bench.woken(), [(B, 3)]);
    bench.claim(B, 3).granted();
    assert_eq!(bench.acquire(B, 2), AcquireOutcome::Overtaken);
}

#[test]
fn a_lower_attempt_does_not_bring_a_dropped_higher_one_back() {
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    bench.acquire(B, 2);
    bench.drop_call(B, 2);
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Overtaken);
    bench.release(&held);
    assert_eq!(bench.woken(), []);
}

#[test]
fn calls_of_one_attempt_share_it_and_the_cleanup_of_one_leaves_the_other_bound() {
    let (mut bench, held) = Bench::held_with_waiters(&[B]);
    bench.call_id = 2;
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued);
    assert_eq!(bench.woken(), [], "no attempt was overtaken");
    bench.drop_call(B, 1);
    bench.release(&held);
    assert_eq!(bench.woken(), [(B, 1)]);
    bench.call_id = 1;
    let grant = bench.claim(B, 1).granted();
    bench.call_id = 3;
    assert_eq!(bench.acquire(B, 1).granted(), grant);
    bench.drop_call(B, 1);
    bench.call_id = 1;
    assert_eq!(bench.claim(B, 1).granted().left, TTL, "one of two calls is left");
    bench.drop_call(B, 1);
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Overtaken, "none is left");
}

#[test]
fn claims_and_give_ups_of_an_attempt_that_was_never_bound_answer_unknown() {
    let (mut bench, held) = Bench::held_with_waiters(&[B]);
    assert_eq!(bench.claim(B, 2), AcquireOutcome::Unknown);
    assert_eq!(bench.give_up(B, 2), AcquireOutcome::Unknown);
    bench.release(&held);
    assert_eq!(bench.claim(B, 2), AcquireOutcome::Unknown, "the offer belongs to attempt 1");
    bench.claim(B, 1).granted();
    assert_eq!(bench.claim(B, 2), AcquireOutcome::Unknown, "the lease belongs to attempt 1");
}

#[test]
fn a_request_id_is_bound_to_its_terms() {
    let (mut bench, held) = Bench::held_with_waiters(&[B]);
    assert_eq!(bench.acquire_on_other_terms(A, 2), AcquireOutcome::OtherTerms, "while it holds");
    assert_eq!(bench.acquire_on_other_terms(B, 2), AcquireOutcome::OtherTerms, "while it waits");
    assert_eq!(bench.woken(), [], "nothing was bound");
    bench.release(&held);
    assert_eq!(bench.acquire_on_other_terms(A, 2), AcquireOutcome::OtherTerms, "after its end");
    bench.claim(B, 1).granted();
    bench.pass(secs(10));
    assert_eq!(bench.acquire_on_other_terms(A, 2), AcquireOutcome::Queued, "until it is forgotten");
}

#[test]
fn a_retry_makes_a_waiter_that_missed_its_offer_eligible_again() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    bench.release(&held);
    let grant = bench.pass(secs(3)).claim(C, 1).granted();
    assert_eq!(bench.acquire(B, 2), AcquireOutcome::Queued);
    bench.release(&grant);
    assert_eq!(bench.woken(), [(B, 2)]);
}
