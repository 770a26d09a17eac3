//! Standing in line.

use crate::bench::{Bench, Harness, Recorder, TTL, WAITERS_MAX, call, granted, waiting, wish};
use fencepost::{
    domain::{
        command::{Acquire, Command},
        ids::{Call, CallId},
        lease::LeaseEnd,
        limits::{CLAIM_WINDOW, DROP_GRACE, ENDED_MEMORY},
        outcome::AcquireOutcome,
    },
    store::Store,
};
use std::time::Duration;

/// The requests whose calls were woken since the last time, by a hint or by a claim that the store made for them.
fn woken(bench: &Bench<impl Harness>) -> Vec<u128> {
    let hints = Recorder::take(&bench.notices().hints).into_iter().map(|(request, _)| request);
    let claims = Recorder::take(&bench.notices().claimed).into_iter().map(|(call, _)| call.request);
    hints.chain(claims).map(|request| request.0.as_u128()).collect()
}

pub(crate) async fn waiters_are_offered_the_lock_in_order(bench: &Bench<impl Harness>) {
    let mut holder = bench.take(1).await;
    bench.queue(2..8).await;
    assert_eq!(bench.view().await.waiters, 6);
    for number in 2..8 {
        assert_eq!(bench.claim(number).await, AcquireOutcome::Queued, "not while it is held");
        assert_eq!(woken(bench), [0_u128; 0]);
        bench.revoke(holder).await;
        assert_eq!(woken(bench), [number], "one is woken, and it is the next");
        let AcquireOutcome::Contended(contention) = bench.ask(wish(99)).await else { panic!("it is on offer") };
        assert_eq!(contention.current, None);
        for later in number + 1..8 {
            assert_eq!(bench.claim(later).await, AcquireOutcome::Queued, "nobody jumps the line");
        }
        let next = granted(bench.claim(number).await);
        assert!(next.token > holder.token);
        assert_eq!((next.previous_end, next.left), (Some(LeaseEnd::Revoked), TTL));
        holder = next;
    }
    assert_eq!(bench.view().await.waiters, 0);
}

/// Whether the lock is offered to it first, or is its own at once.
pub(crate) async fn what_is_released_is_had_in_order(bench: &Bench<impl Harness>) {
    let mut holder = bench.take(1).await;
    bench.queue(2..8).await;
    for number in 2..8 {
        bench.release(holder).await;
        assert_eq!(woken(bench), [number], "one is woken, and it is the next");
        for later in number + 1..8 {
            assert_eq!(bench.claim(later).await, AcquireOutcome::Queued, "nobody jumps the line");
        }
        let next = granted(bench.claim(number).await);
        assert!(next.token > holder.token && next.left <= TTL);
        assert_eq!(next.previous_end, Some(LeaseEnd::Released));
        holder = next;
    }
    assert_eq!(bench.view().await.waiters, 0);
}

pub(crate) async fn a_claim_repeated_answers_the_same_lease(bench: &Bench<impl Harness>) {
    let holder = bench.take(1).await;
    bench.queue([2]).await;
    bench.release(holder).await;
    let first = granted(bench.claim(2).await);
    let again = granted(bench.claim(2).await);
    assert_eq!((first.lease_id, first.token), (again.lease_id, again.token));
    assert_eq!(granted(bench.give_up(2).await).lease_id, first.lease_id, "a wait that ends too late has the lock");
}

pub(crate) async fn an_offer_that_is_not_claimed_goes_to_the_next_and_its_waiter_keeps_its_place(
    bench: &Bench<impl Harness>,
) {
    let holder = bench.take(1).await;
    bench.queue([2, 3, 4]).await;
    bench.revoke(holder).await;
    woken(bench);
    bench.pass(CLAIM_WINDOW).await;
    assert_eq!(woken(bench), [3]);
    let third = granted(bench.claim(3).await);
    assert_eq!(third.previous_end, Some(LeaseEnd::Revoked), "an offer leaves no trace");
    assert_eq!(bench.claim(2).await, AcquireOutcome::Queued, "it shows life");
    woken(bench);
    bench.release(third).await;
    assert_eq!(woken(bench), [2], "and is before those who came after it");
}

pub(crate) async fn a_waiter_that_gives_up_is_out_of_the_line(bench: &Bench<impl Harness>) {
    let holder = bench.take(1).await;
    bench.queue([2, 3]).await;
    let AcquireOutcome::TimedOut(contention) = bench.give_up(2).await else { panic!("its wait is over") };
    assert_eq!((contention.current.unwrap().token, contention.waiters), (holder.token, 1));
    bench.revoke(holder).await;
    assert!(matches!(bench.ask(waiting(2)).await, AcquireOutcome::TimedOut(_)), "a late duplicate hears the same");
    // Whoever gives up with the lock on offer hands it on.
    assert!(matches!(bench.give_up(3).await, AcquireOutcome::TimedOut(_)));
    let next = bench.take(4).await;
    bench.release(next).await;
    bench.pass(ENDED_MEMORY).await;
    bench.take(2).await;
}

pub(crate) async fn a_dropped_waiter_is_skipped_and_its_retry_finds_its_place(bench: &Bench<impl Harness>) {
    let holder = bench.take(1).await;
    bench.queue([2, 3, 4]).await;
    bench.drop_call(2, 1).await;
    assert_eq!(bench.claim(2).await, AcquireOutcome::Overtaken, "dropped is final");
    bench.release(holder).await;
    assert_eq!(woken(bench), [3], "it is skipped");
    let third = granted(bench.claim(3).await);
    assert_eq!(bench.ask(Acquire { call: call(2, 2), ..waiting(2) }).await, AcquireOutcome::Queued);
    bench.drop_call(2, 1).await;
    // The call that was overtaken may be told, though it is gone.
    woken(bench);
    bench.release(third).await;
    assert_eq!(woken(bench), [2], "its retry stands where it stood");
}

/// A client that does not count its attempts sent two calls under one number, and the first never reached the store.
pub(crate) async fn a_cleanup_takes_away_its_own_call_and_no_other(bench: &Bench<impl Harness>) {
    bench.take(1).await;
    bench.queue([2]).await;
    for number in [1, 2] {
        let lost = Call { id: CallId(99), ..call(number, 1) };
        // Retried, since its answer may have been lost.
        for _ in 0..2 {
            bench.post(Command::DropCall(lost)).await;
        }
    }
    assert!(bench.view().await.current.unwrap().left > DROP_GRACE, "its holder reckons with the whole TTL");
    assert_eq!(bench.claim(2).await, AcquireOutcome::Queued, "in line as before");
    bench.drop_call(1, 1).await;
    assert!(bench.view().await.current.unwrap().left <= DROP_GRACE, "nobody else was bound");
    bench.drop_call(2, 1).await;
    assert_eq!(bench.claim(2).await, AcquireOutcome::Overtaken);
}

pub(crate) async fn a_dropped_waiter_is_forgotten_after_its_grace(bench: &Bench<impl Harness>) {
    let holder = bench.take(1).await;
    bench.queue([2]).await;
    bench.drop_call(2, 1).await;
    assert_eq!(bench.view().await.waiters, 1);
    bench.pass(DROP_GRACE).await;
    assert_eq!(bench.view().await.waiters, 0);
    assert_eq!(bench.ask(Acquire { call: call(2, 2), ..waiting(2) }).await, AcquireOutcome::Ended);
    bench.release(holder).await;
    bench.take(3).await;
}

pub(crate) async fn a_dropped_waiter_declines_its_offer_at_once(bench: &Bench<impl Harness>) {
    let holder = bench.take(1).await;
    bench.queue([2, 3]).await;
    bench.revoke(holder).await;
    woken(bench);
    bench.drop_call(2, 1).await;
    assert_eq!(woken(bench), [3]);
    granted(bench.claim(3).await);
}

pub(crate) async fn a_waiter_that_declines_lets_the_next_one_pass_and_comes_back_by_a_claim(
    bench: &Bench<impl Harness>,
) {
    let holder = bench.take(1).await;
    bench.queue([2, 3, 4]).await;
    // Nothing was offered to it.
    bench.decline(2).await;
    bench.revoke(holder).await;
    assert_eq!(woken(bench), [2], "it stands where it stood");
    bench.decline(2).await;
    assert_eq!(woken(bench), [3]);
    let third = granted(bench.claim(3).await);
    assert_eq!(bench.claim(2).await, AcquireOutcome::Queued, "it shows life");
    bench.revoke(third).await;
    assert_eq!(woken(bench), [2], "and is before those who came after it");
    bench.decline(2).await;
    bench.pass(DROP_GRACE).await;
    assert_eq!(bench.claim(2).await, AcquireOutcome::Ended);
}

/// A store may hand a lock over before its waiter has asked for it.
pub(crate) async fn what_is_granted_unasked_is_declined_as_by_a_dropped_call(bench: &Bench<impl Harness>) {
    let holder = bench.take(1).await;
    bench.queue([2, 3]).await;
    bench.release(holder).await;
    if bench.notices().claimed.lock().unwrap().is_empty() {
        bench.decline(2).await;
    } else {
        bench.drop_call(2, 1).await;
        bench.pass(DROP_GRACE).await;
    }
    let mut woken = woken(bench);
    woken.sort_unstable();
    assert_eq!(woken, [2, 3]);
    granted(bench.claim(3).await);
}

/// A claim that the store makes for a call gives it what the call's own claim would.
pub(crate) async fn what_is_granted_unasked_is_the_lease_that_a_claim_answers(bench: &Bench<impl Harness>) {
    let holder = bench.take(1).await;
    bench.queue([2]).await;
    bench.release(holder).await;
    let unasked = Recorder::take(&bench.notices().claimed);
    let claimed = granted(bench.claim(2).await);
    for (its, outcome) in unasked {
        let granted = granted(outcome);
        assert_eq!((its, granted.lease_id, granted.token), (call(2, 1), claimed.lease_id, claimed.token));
    }
}

pub(crate) async fn a_try_ends_the_wait_of_its_own_request(bench: &Bench<impl Harness>) {
    let holder = bench.take(1).await;
    bench.queue([2]).await;
    assert!(matches!(bench.ask(Acquire { call: call(2, 2), ..wish(2) }).await, AcquireOutcome::TimedOut(_)));
    assert_eq!(woken(bench), [2], "the older call learns of it");
    bench.release(holder).await;
    assert!(matches!(bench.ask(waiting(2)).await, AcquireOutcome::TimedOut(_)), "and does not queue again");
    bench.take(3).await;
}

pub(crate) async fn the_queue_is_bounded(bench: &Bench<impl Harness>) {
    bench.take(1).await;
    let last = 2 + WAITERS_MAX as u128;
    bench.queue(2..last).await;
    assert_eq!(bench.ask(waiting(last)).await, AcquireOutcome::QueueFull);
    assert_eq!(
        bench.ask(Acquire { call: call(2, 2), ..waiting(2) }).await,
        AcquireOutcome::Queued,
        "a repeat is no waiter more"
    );
    assert!(matches!(bench.give_up(3).await, AcquireOutcome::TimedOut(_)));
    assert_eq!(bench.ask(waiting(last)).await, AcquireOutcome::Queued);
}

pub(crate) async fn an_expiry_serves_the_next_without_any_command(bench: &Bench<impl Harness>) {
    bench.take(1).await;
    bench.queue([2]).await;
    bench.pass(TTL - Duration::from_secs(1)).await;
    assert_eq!(woken(bench), [0_u128; 0]);
    bench.pass(Duration::from_secs(1)).await;
    assert_eq!(woken(bench), [2]);
    assert_eq!(granted(bench.claim(2).await).previous_end, Some(LeaseEnd::Expired));
}

pub(crate) async fn nobody_knows_a_request_that_never_was(bench: &Bench<impl Harness>) {
    assert_eq!(bench.claim(1).await, AcquireOutcome::Unknown);
    assert_eq!(bench.give_up(1).await, AcquireOutcome::Unknown);
    bench.drop_call(1, 1).await;
    let other = wish(1);
    assert_eq!(bench.ask(other).await, AcquireOutcome::Overtaken, "a dropped call that was overtaken by its cleanup");
    granted(bench.ask(Acquire { call: call(1, 2), ..wish(1) }).await);
}

pub(crate) async fn a_waiter_knows_how_many_are_before_it_at_most(bench: &Bench<impl Harness>) {
    let ahead = |number| bench.store().ahead(&bench.lock, call(number, 1));
    let holder = bench.take(1).await;
    assert_eq!(ahead(1), None, "it does not wait");
    bench.queue(2..5).await;
    assert_eq!([2, 3, 4].map(ahead), [Some(0), Some(1), Some(2)]);
    bench.release(holder).await;
    granted(bench.claim(2).await);
    assert_eq!(bench.claim(4).await, AcquireOutcome::Queued);
    assert_eq!([2, 4].map(ahead), [None, Some(1)]);
    bench.give_up(4).await;
    assert_eq!(ahead(4), None);
}
