//! Limits, exactly at the limit, and a clock that steps back.

use super::*;

#[test]
fn a_tombstone_lasts_as_long_as_its_command_may_act() {
    let mut bench = Bench::new();
    let last = bench.now.after(COMMAND_WINDOW);
    bench.drop_call(A, 1);
    bench.now = last;
    assert_eq!(bench.acquire(A, 1), AcquireOutcome::Overtaken);
    let due = bench.lock.next_due().unwrap();
    assert_eq!(due, last.after(MICRO));
    bench.now = due;
    bench.apply_time();
    assert!(bench.lock.is_idle());
    bench.acquire(A, 1).granted();
}

#[test]
fn a_min_token_raises_this_token_and_those_after_it() {
    let mut bench = Bench::new();
    bench.min_token = 1_000_000;
    let grant = bench.acquire(A, 1).granted();
    assert_eq!(grant.token.get(), 1_000_000);
    bench.release(&grant);
    bench.min_token = 0;
    assert_eq!(bench.acquire(B, 1).granted().token.get(), 1_000_001);
}

#[test]
fn a_waiter_keeps_its_min_token() {
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    bench.min_token = held.token.get() + 1_000_000_000;
    bench.acquire(B, 1);
    bench.release(&held);
    assert_eq!(bench.claim(B, 1).granted().token.get(), held.token.get() + 1_000_000_000);
}

#[test]
fn a_full_queue_refuses_new_waiters_but_not_retries_of_queued_ones() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    bench.waiters_max = 2;
    assert_eq!(bench.acquire(D, 1), AcquireOutcome::QueueFull);
    assert_eq!(bench.acquire(C, 2), AcquireOutcome::Queued, "a retry takes no second queue position");
    assert!(matches!(bench.try_acquire(D, 1), AcquireOutcome::Contended(_)));
    bench.drop_call(C, 2);
    assert_eq!(bench.acquire(D, 1), AcquireOutcome::QueueFull, "a dropped call's queue position still counts");
    bench.release(&held);
    assert_eq!(bench.acquire(D, 1), AcquireOutcome::QueueFull, "an offer is not a lease yet");
    bench.claim(B, 1).granted();
    assert_eq!(bench.acquire(D, 1), AcquireOutcome::Queued);
}

#[test]
fn no_request_is_queued_if_the_limit_is_0() {
    let (mut bench, _) = Bench::held_with_waiters(&[]);
    bench.waiters_max = 0;
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::QueueFull);
}

#[test]
fn a_clock_that_steps_back_leaves_a_lease_its_ttl_from_now_and_no_more() {
    let (mut bench, grant) = Bench::held_with_waiters(&[B]);
    bench.step_back(secs(3_600));
    assert_eq!(bench.view().current.unwrap().left, TTL);
    bench.pass(TTL - MICRO);
    bench.step_back(TTL);
    bench.apply_time();
    bench.pass(TTL).apply_time();
    assert_eq!(bench.ends(), [LeaseEnd::Expired]);
    let next = bench.claim(B, 1).granted();
    assert!(next.token > grant.token, "tokens rise even if the clock does not");
}

#[test]
fn a_clock_that_steps_back_leaves_a_lease_that_was_cut_short_3_s_from_now() {
    let (mut bench, _) = Bench::held_with_waiters(&[]);
    bench.drop_call(A, 1);
    assert_eq!(bench.step_back(secs(3_600)).view().current.unwrap().left, secs(3));
    bench.apply_time();
    bench.pass(secs(3)).apply_time();
    assert_eq!(bench.ends(), [LeaseEnd::Expired]);
}

#[test]
fn a_clock_that_steps_back_leaves_an_offer_its_window_from_now() {
    let (mut bench, held) = Bench::held_with_waiters(&[B, C]);
    bench.release(&held);
    bench.step_back(secs(3_600)).apply_time();
    bench.pass(secs(3) - MICRO).apply_time();
    assert_eq!(bench.woken(), []);
    bench.pass(MICRO).apply_time();
    assert_eq!(bench.woken(), [(C, 1)]);
}

#[test]
fn a_clock_that_steps_back_leaves_a_dropped_call_its_queue_position_for_3_s_from_now() {
    let (mut bench, _) = Bench::held_with_waiters(&[B, C]);
    bench.drop_call(B, 1);
    bench.pass(secs(1)).drop_call(C, 1);
    bench.step_back(secs(60)).apply_time();
    assert_eq!(bench.pass(secs(3) - MICRO).acquire(B, 2), AcquireOutcome::Queued);
    assert_eq!(bench.pass(MICRO).acquire(C, 2), AcquireOutcome::Ended);
}

#[test]
fn a_clock_that_steps_back_keeps_ended_requests_for_at_most_10_s_from_now() {
    let (mut bench, held) = Bench::held_with_waiters(&[]);
    bench.release(&held);
    bench.drop_call(B, 1);
    bench.step_back(secs(3_600)).apply_time();
    assert_eq!(bench.acquire(A, 1), AcquireOutcome::Ended);
    bench.pass(secs(10)).apply_time();
    assert!(bench.lock.is_idle());
    assert_eq!(bench.status(held.token), TokenStatus::Unknown);
    assert_eq!(bench.view().previous_end, None);
}
