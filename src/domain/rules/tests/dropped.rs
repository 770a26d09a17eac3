//! Calls that are dropped, and retries that find what they left.

use super::*;

#[test]
fn a_dropped_waiter_is_skipped_and_its_place_is_kept_for_3_s() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B, C]);
    bench.drop_call(B, 1);
    bench.release(&held);
    assert_eq!(bench.woken(), [(C, 1)], "skipped");
    let grant = bench.claim(C, 1).granted();
    assert_eq!(bench.acquire(D, 1), AcquireOutcome::Queued);
    assert_eq!(bench.pass(secs(3) - MICRO).acquire(B, 2), AcquireOutcome::Queued);
    bench.release(&grant);
    assert_eq!(bench.woken(), [(B, 2)], "in its place before D");
}

#[test]
fn after_3_s_a_dropped_request_has_ended() {
    let (mut bench, _) = Bench::held_and_wanted_by(&[B]);
    bench.drop_call(B, 1);
    assert_eq!(bench.view().waiters, 1);
    bench.pass(secs(3));
    assert_eq!(bench.view().waiters, 0, "seen before anybody clears it away");
    assert_eq!(bench.acquire(B, 2), AcquireOutcome::Ended);
    assert_eq!(bench.pass(secs(10) - MICRO).acquire(B, 3), AcquireOutcome::Ended);
    assert_eq!(bench.pass(MICRO).acquire(B, 4), AcquireOutcome::Queued);
}

#[test]
fn a_retry_with_the_same_number_keeps_the_place_too() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B, C]);
    bench.drop_call(B, 1);
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued);
    bench.release(&held);
    assert_eq!(bench.woken(), [(B, 1)]);
}

#[test]
fn an_offer_to_a_dropped_call_is_declined_at_once() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B, C]);
    bench.release(&held);
    bench.drop_call(B, 1);
    assert_eq!(bench.woken(), [(C, 1)]);
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Overtaken, "dropped is final");
    assert_eq!(bench.give_up(B, 1), AcquireOutcome::Overtaken);
    bench.claim(C, 1).granted();
}

#[test]
fn a_retry_of_a_dropped_waiter_is_given_a_free_lock_at_once() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B]);
    bench.release(&held);
    bench.drop_call(B, 1);
    bench.pass(secs(1)).acquire(B, 2).granted();
}

#[test]
fn a_lease_that_nobody_heard_of_is_cut_to_3_s() {
    let (mut bench, grant) = Bench::held_and_wanted_by(&[B]);
    bench.pass(secs(5)).drop_call(A, 1);
    assert_eq!(bench.view().current.unwrap().left, secs(3));
    assert_eq!(bench.claim(A, 1), AcquireOutcome::Overtaken);
    bench.pass(secs(3)).settle();
    assert_eq!(bench.ends(), [LeaseEnd::Expired]);
    assert_eq!(bench.woken(), [(B, 1)]);
    assert_eq!(bench.renew(&grant, None), RenewOutcome::Lost(ended(LeaseEnd::Expired, None)));
}

#[test]
fn a_lease_is_cut_and_never_prolonged() {
    let (mut bench, _) = Bench::held_and_wanted_by(&[]);
    bench.pass(TTL - secs(1)).drop_call(A, 1);
    assert_eq!(bench.view().current.unwrap().left, secs(1));
}

#[test]
fn a_retry_that_binds_arms_an_unheard_lease_again() {
    for attempt in [1, 2] {
        let (mut bench, grant) = Bench::held_and_wanted_by(&[]);
        bench.drop_call(A, 1);
        let again = bench.pass(secs(3) - MICRO).acquire(A, attempt).granted();
        assert_eq!(again, grant, "the same lease with its whole TTL");
        bench.drop_call(A, attempt);
        assert_eq!(bench.view().current.unwrap().left, secs(3), "nobody has heard of it yet");
    }
}

#[test]
fn a_retry_that_is_overtaken_does_not_arm_an_unheard_lease_again() {
    let mut bench = Bench::new();
    bench.acquire(A, 2).granted();
    bench.drop_call(A, 2);
    assert_eq!(bench.acquire(A, 1), AcquireOutcome::Overtaken);
    assert_eq!(bench.view().current.unwrap().left, secs(3));
}

#[test]
fn whoever_renews_an_unheard_lease_has_heard_of_it() {
    let (mut bench, grant) = Bench::held_and_wanted_by(&[]);
    bench.drop_call(A, 1);
    assert_eq!(bench.pass(secs(1)).renew(&grant, None).left(), TTL);
}

#[test]
fn a_lease_that_its_holder_renewed_or_attached_is_not_cut() {
    let (mut bench, grant) = Bench::held_and_wanted_by(&[]);
    bench.renew(&grant, None);
    bench.acquire(A, 2).granted();
    bench.drop_call(A, 2);
    assert_eq!(bench.view().current.unwrap().left, TTL);

    let (mut bench, grant) = Bench::held_and_wanted_by(&[]);
    bench.attach(&grant, 1, stream(1));
    bench.drop_call(A, 1);
    assert_eq!(bench.view().current.unwrap().left, TTL);
}

#[test]
fn a_cleanup_that_overtook_its_command_leaves_a_tombstone() {
    let mut bench = Bench::new();
    bench.drop_call(A, 1);
    assert_eq!(bench.acquire(A, 1), AcquireOutcome::Overtaken);
    assert_eq!(bench.acquire(A, 1), AcquireOutcome::Overtaken, "however often it comes");
    assert_eq!(bench.claim(A, 1), AcquireOutcome::Overtaken);
    bench.acquire(A, 2).granted();
}

#[test]
fn a_cleanup_of_a_newer_attempt_is_for_it_and_leaves_the_older_one_alone() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B]);
    bench.drop_call(B, 2);
    assert_eq!(bench.acquire(B, 2), AcquireOutcome::Overtaken);
    bench.drop_call(A, 2);
    assert_eq!(bench.acquire(A, 2), AcquireOutcome::Overtaken);
    assert_eq!(bench.view().current.unwrap().left, TTL);
    bench.release(&held);
    assert_eq!(bench.woken(), [(B, 1)]);
    bench.claim(B, 1).granted();
}

#[test]
fn a_drop_after_the_end_leaves_nothing_behind() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[]);
    bench.release(&held);
    bench.drop_call(A, 1);
    bench.pass(secs(10)).settle();
    assert!(bench.lock.is_idle());
}

#[test]
fn a_drop_whose_command_can_come_no_more_leaves_nothing_behind() {
    let mut bench = Bench::new();
    bench.late = true;
    bench.drop_call(A, 1);
    assert!(bench.lock.is_idle());
}

#[test]
fn a_second_cleanup_of_an_attempt_does_not_shorten_the_tombstone_of_the_first() {
    let mut bench = Bench::new();
    bench.drop_call(A, 1);
    let call = bench.call(A, 1);
    bench.turn(|turn| {
        turn.not_after = turn.now;
        turn.drop_call(call);
    });
    assert_eq!(bench.pass(MICRO).acquire(A, 1), AcquireOutcome::Overtaken);
}

/// The same number was sent twice, and only one of the two reached the store. (Found by the torture through two
/// servers, and by clients that do not count through one: a lease was cut short that its holder reckoned with, and a
/// second holder got in.)
#[test]
fn the_cleanup_of_a_call_that_was_never_bound_takes_no_other_away() {
    for replica in [1, 2] {
        let mut bench = Bench { replicas: Replicas::many(), replica: 1, ..Bench::new() };
        let held = bench.acquire(A, 1).granted();
        assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued);
        (bench.replica, bench.call_id) = (replica, 2);
        for _ in 0..2 {
            bench.drop_call(A, 1);
            bench.drop_call(B, 1);
        }
        assert_eq!(bench.pass(secs(2)).view().current.unwrap().left, TTL - secs(2), "not cut short");
        (bench.replica, bench.call_id) = (1, 1);
        bench.release(&held);
        assert_eq!(bench.woken(), [(B, 1)], "in line as before");
        bench.drop_call(B, 1);
        assert_eq!(bench.claim(B, 1), AcquireOutcome::Overtaken, "its own cleanup acts");
    }
}

#[test]
fn a_cleanup_that_runs_twice_takes_one_call_away() {
    let (mut bench, _) = Bench::held_and_wanted_by(&[]);
    bench.call_id = 2;
    bench.acquire(A, 1).granted();
    for _ in 0..3 {
        bench.drop_call(A, 1);
    }
    assert_eq!(bench.view().current.unwrap().left, TTL, "the first call may have heard of the lease");
    bench.call_id = 1;
    bench.drop_call(A, 1);
    assert_eq!(bench.view().current.unwrap().left, secs(3));
}

#[test]
fn a_call_whose_cleanup_overtook_it_does_not_come_back_beside_another() {
    let (mut bench, _) = Bench::held_and_wanted_by(&[B]);
    bench.call_id = 2;
    for request in [A, B] {
        bench.drop_call(request, 1);
        assert_eq!(bench.acquire(request, 1), AcquireOutcome::Overtaken, "its client is gone");
    }
    bench.call_id = 1;
    bench.drop_call(A, 1);
    assert_eq!(bench.view().current.unwrap().left, secs(3), "nobody else was bound");
}
