//! First come, first served; offers that are claimed, declined, or lapse.

use super::*;

#[test]
fn a_release_offers_the_lock_to_the_first_in_line_who_claims_it() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B, C]);
    assert_eq!(bench.release(&held), ReleaseOutcome::Released);
    assert_eq!(bench.woken(), [(B, 1)], "one release wakes one waiter");
    assert_eq!(bench.claim(C, 1), AcquireOutcome::Queued);
    let grant = bench.pass(secs(2)).claim(B, 1).granted();
    assert_eq!(grant.left, TTL, "the TTL begins with the claim");
    assert!(grant.token > held.token);
    assert_eq!(bench.effects.as_slice(), [Effect::Granted]);
}

#[test]
fn a_repeated_claim_answers_the_same_lease() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B]);
    bench.release(&held);
    let first = bench.claim(B, 1).granted();
    let again = bench.pass(secs(1)).claim(B, 1).granted();
    assert_eq!(again, Grant { left: first.left - secs(1), ..first });
    assert!(bench.effects.is_empty());
}

#[test]
fn the_line_is_served_in_order_whatever_comes_by() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B, C, D]);
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
fn an_expiry_that_nobody_announces_is_found_by_whoever_comes_by() {
    let (mut bench, _) = Bench::held_and_wanted_by(&[B, C]);
    assert_eq!(bench.pass(TTL - MICRO).claim(C, 1), AcquireOutcome::Queued);
    assert!(bench.effects.is_empty());
    assert_eq!(bench.pass(MICRO).claim(C, 1), AcquireOutcome::Queued);
    assert_eq!(bench.ends(), [LeaseEnd::Expired]);
    assert_eq!(bench.woken(), [(B, 1)]);
    bench.claim(B, 1).granted();
}

#[test]
fn an_offer_lapses_after_3_s_and_the_next_in_line_is_served() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B, C]);
    bench.release(&held);
    bench.pass(secs(3) - MICRO).settle();
    assert_eq!(bench.woken(), []);
    bench.pass(MICRO).settle();
    assert_eq!(bench.woken(), [(C, 1)]);
    assert_eq!(bench.ends(), [], "an offer is no lease");
    bench.claim(C, 1).granted();
}

#[test]
fn whoever_let_an_offer_lapse_is_skipped_until_it_shows_life_and_is_then_in_its_old_place() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B, C, D]);
    bench.release(&held);
    let grant = bench.pass(secs(3)).claim(C, 1).granted();
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Queued);
    bench.release(&grant);
    assert_eq!(bench.woken(), [(B, 1)], "before D");
    bench.claim(B, 1).granted();
}

#[test]
fn a_waiter_that_missed_its_offer_and_shows_life_is_given_a_free_lock_in_the_same_turn() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B]);
    bench.release(&held);
    bench.pass(secs(100)).settle();
    assert_eq!(bench.woken(), []);
    bench.claim(B, 1).granted();
}

#[test]
fn a_newcomer_takes_a_free_lock_that_all_waiters_missed() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B]);
    bench.release(&held);
    let grant = bench.pass(secs(3)).try_acquire(C, 1).granted();
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Queued);
    bench.release(&grant);
    assert_eq!(bench.woken(), [(B, 1)]);
}

#[test]
fn giving_up_leaves_the_line_and_is_told_so() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B, C]);
    let AcquireOutcome::TimedOut(contention) = bench.give_up(B, 1) else { panic!("the wait is over") };
    assert_eq!(contention.waiters, 1, "without the one that is told");
    assert_eq!(contention.current.map(|current| current.token), Some(held.token));
    bench.release(&held);
    assert_eq!(bench.woken(), [(C, 1)]);
}

#[test]
fn giving_up_an_offer_hands_it_on_at_once() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B, C]);
    bench.release(&held);
    assert!(bench.give_up(B, 1).is_timed_out());
    assert_eq!(bench.woken(), [(C, 1)]);
}

#[test]
fn giving_up_after_the_grant_answers_the_lease() {
    let (mut bench, held) = Bench::held_and_wanted_by(&[B]);
    bench.release(&held);
    let grant = bench.claim(B, 1).granted();
    assert_eq!(bench.give_up(B, 1).granted(), grant);
}

#[test]
fn giving_up_takes_a_shared_place_away_with_the_last_call() {
    let (mut bench, _) = Bench::held_and_wanted_by(&[B]);
    bench.call_id = 2;
    assert_eq!(bench.acquire(B, 1), AcquireOutcome::Queued);
    assert_eq!(bench.give_up(B, 1), AcquireOutcome::Shared);
    assert_eq!(bench.give_up(B, 1), AcquireOutcome::Shared, "given up twice, it is one call");
    assert_eq!(bench.view().waiters, 1);
    bench.call_id = 1;
    assert!(bench.give_up(B, 1).is_timed_out());
    assert_eq!(bench.view().waiters, 0);
}

#[test]
fn a_try_by_one_that_waits_ends_its_wait_and_tells_its_other_calls() {
    let (mut bench, _) = Bench::held_and_wanted_by(&[B]);
    assert!(bench.try_acquire(B, 2).is_timed_out());
    assert_eq!(bench.woken(), [(B, 1)], "the call that is overtaken");
    assert_eq!(bench.view().waiters, 0);

    let (mut bench, _) = Bench::held_and_wanted_by(&[B]);
    assert!(bench.try_acquire(B, 1).is_timed_out());
    assert_eq!(bench.woken(), [(B, 1)], "the call of the same number");
    assert!(bench.claim(B, 1).is_timed_out());
}

#[test]
fn claims_and_give_ups_of_what_nobody_knows_are_told_so() {
    let mut bench = Bench::new();
    assert_eq!(bench.claim(B, 1), AcquireOutcome::Unknown);
    assert_eq!(bench.give_up(B, 1), AcquireOutcome::Unknown);
    assert!(bench.lock.is_idle());
}

#[test]
fn a_waiter_knows_how_many_are_before_it_at_most() {
    let (mut bench, grant) = Bench::held_and_wanted_by(&[B, C, D]);
    let ahead = |bench: &Bench| [A, B, C, D].map(|number| bench.lock.ahead(RequestId(Uuid::from_u128(number))));
    assert_eq!(ahead(&bench), [None, Some(0), Some(1), Some(2)]);
    bench.give_up(C, 1);
    assert_eq!(ahead(&bench), [None, Some(0), None, Some(2)], "who left from between is counted still");
    bench.release(&grant);
    assert_eq!(ahead(&bench), [None, Some(0), None, Some(0)], "the lock is on offer to the first");
}
