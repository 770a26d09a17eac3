//! The queue of waiters.

use crate::{
    bench::{Bench, Harness, TTL, WAITERS_MAX, acquire, call, granted, try_acquire},
    notices::RecordingNotices,
};
use fencepost::testing::{
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

/// Takes the requests that were woken, by a hint or a hand-over.
fn woken(bench: &Bench<impl Harness>) -> Vec<u128> {
    let hints = RecordingNotices::take(&bench.notices().hints).into_iter().map(|(request, _)| request);
    let claims = RecordingNotices::take(&bench.notices().claimed).into_iter().map(|(call, _)| call.request);
    hints.chain(claims).map(|request| request.0.as_u128()).collect()
}

pub(crate) async fn waiters_are_offered_the_lock_in_order(bench: &Bench<impl Harness>) {
    bench.hand_over_to_nobody();
    let mut holder = bench.acquire(1).await;
    bench.queue(2..8).await;
    assert_eq!(bench.view().await.waiters, 6);
    for number in 2..8 {
        assert_eq!(bench.claim(number).await, AcquireOutcome::Queued, "the lock is held");
        assert_eq!(woken(bench), [0_u128; 0]);
        bench.revoke(holder).await;
        assert_eq!(woken(bench), [number], "only the next waiter is woken");
        let AcquireOutcome::Contended(contention) = bench.request(try_acquire(99)).await else {
            panic!("the lock is offered")
        };
        assert_eq!(contention.current, None);
        for later in number + 1..8 {
            assert_eq!(bench.claim(later).await, AcquireOutcome::Queued, "later waiters stay queued");
        }
        let next = granted(bench.claim(number).await);
        assert!(next.token > holder.token);
        assert_eq!((next.previous_end, next.left), (Some(LeaseEnd::Revoked), TTL));
        holder = next;
    }
    assert_eq!(bench.view().await.waiters, 0);
}

/// Whether the store offers the lock to the next waiter, or hands it over.
pub(crate) async fn released_locks_are_granted_in_order(bench: &Bench<impl Harness>) {
    let mut holder = bench.acquire(1).await;
    bench.queue(2..8).await;
    for number in 2..8 {
        bench.release(holder).await;
        assert_eq!(woken(bench), [number], "only the next waiter is woken");
        for later in number + 1..8 {
            assert_eq!(bench.claim(later).await, AcquireOutcome::Queued, "later waiters stay queued");
        }
        let next = granted(bench.claim(number).await);
        assert!(next.token > holder.token && next.left <= TTL);
        assert_eq!(next.previous_end, Some(LeaseEnd::Released));
        holder = next;
    }
    assert_eq!(bench.view().await.waiters, 0);
}

pub(crate) async fn a_repeated_claim_returns_the_same_lease(bench: &Bench<impl Harness>) {
    let holder = bench.acquire(1).await;
    bench.queue([2]).await;
    bench.release(holder).await;
    let first = granted(bench.claim(2).await);
    let again = granted(bench.claim(2).await);
    assert_eq!((first.lease_id, first.token), (again.lease_id, again.token));
    assert_eq!(granted(bench.give_up(2).await).lease_id, first.lease_id, "giving up after the grant returns the lease");
}

pub(crate) async fn an_offer_that_lapses_goes_to_the_next_waiter_and_the_first_keeps_its_queue_position(
    bench: &Bench<impl Harness>,
) {
    bench.hand_over_to_nobody();
    let holder = bench.acquire(1).await;
    bench.queue([2, 3, 4]).await;
    bench.revoke(holder).await;
    woken(bench);
    bench.pass(CLAIM_WINDOW).await;
    assert_eq!(woken(bench), [3]);
    let third = granted(bench.claim(3).await);
    assert_eq!(third.previous_end, Some(LeaseEnd::Revoked), "an offer is not a lease");
    assert_eq!(bench.claim(2).await, AcquireOutcome::Queued, "it is eligible again");
    woken(bench);
    bench.release(third).await;
    assert_eq!(woken(bench), [2], "it kept its queue position");
}

pub(crate) async fn a_waiter_that_gives_up_leaves_the_queue(bench: &Bench<impl Harness>) {
    bench.hand_over_to_nobody();
    let holder = bench.acquire(1).await;
    bench.queue([2, 3]).await;
    let AcquireOutcome::TimedOut(contention) = bench.give_up(2).await else { panic!("the wait goes on") };
    assert_eq!((contention.current.unwrap().token, contention.waiters), (holder.token, 1));
    bench.revoke(holder).await;
    assert!(matches!(bench.request(acquire(2)).await, AcquireOutcome::TimedOut(_)), "a late duplicate times out again");
    // A waiter that gives up passes its offer on.
    assert!(matches!(bench.give_up(3).await, AcquireOutcome::TimedOut(_)));
    let next = bench.acquire(4).await;
    bench.release(next).await;
    bench.pass(ENDED_MEMORY).await;
    bench.acquire(2).await;
}

pub(crate) async fn a_dropped_waiter_is_skipped_and_its_retry_keeps_its_queue_position(bench: &Bench<impl Harness>) {
    let holder = bench.acquire(1).await;
    bench.queue([2, 3, 4]).await;
    bench.drop_call(2, 1).await;
    assert_eq!(bench.claim(2).await, AcquireOutcome::Overtaken, "dropped is final");
    bench.release(holder).await;
    assert_eq!(woken(bench), [3], "the dropped waiter is skipped");
    let third = granted(bench.claim(3).await);
    assert_eq!(bench.request(Acquire { call: call(2, 2), ..acquire(2) }).await, AcquireOutcome::Queued);
    bench.drop_call(2, 1).await;
    // The store may wake the overtaken call.
    woken(bench);
    bench.release(third).await;
    assert_eq!(woken(bench), [2], "the retry kept the queue position");
}

/// A client that does not count attempts sent two calls of one attempt, and the first never reached the store.
pub(crate) async fn a_cleanup_unbinds_only_its_own_call(bench: &Bench<impl Harness>) {
    bench.acquire(1).await;
    bench.queue([2]).await;
    for number in [1, 2] {
        let lost = Call { id: CallId(99), ..call(number, 1) };
        // Cleanups are retried.
        for _ in 0..2 {
            bench.post(Command::DropCall(lost)).await;
        }
    }
    assert!(bench.view().await.current.unwrap().left > DROP_GRACE, "the lease keeps its full TTL");
    assert_eq!(bench.claim(2).await, AcquireOutcome::Queued, "still queued");
    bench.drop_call(1, 1).await;
    assert!(bench.view().await.current.unwrap().left <= DROP_GRACE, "no other call was bound");
    bench.drop_call(2, 1).await;
    assert_eq!(bench.claim(2).await, AcquireOutcome::Overtaken);
}

pub(crate) async fn a_dropped_waiter_leaves_the_queue_after_the_grace_period(bench: &Bench<impl Harness>) {
    let holder = bench.acquire(1).await;
    bench.queue([2]).await;
    bench.drop_call(2, 1).await;
    assert_eq!(bench.view().await.waiters, 1);
    bench.pass(DROP_GRACE).await;
    assert_eq!(bench.view().await.waiters, 0);
    assert_eq!(bench.request(Acquire { call: call(2, 2), ..acquire(2) }).await, AcquireOutcome::Ended);
    bench.release(holder).await;
    bench.acquire(3).await;
}

pub(crate) async fn a_dropped_waiter_declines_its_offer_at_once(bench: &Bench<impl Harness>) {
    bench.hand_over_to_nobody();
    let holder = bench.acquire(1).await;
    bench.queue([2, 3]).await;
    bench.revoke(holder).await;
    woken(bench);
    bench.drop_call(2, 1).await;
    assert_eq!(woken(bench), [3]);
    granted(bench.claim(3).await);
}

pub(crate) async fn a_waiter_that_declines_is_skipped_until_it_claims(bench: &Bench<impl Harness>) {
    bench.hand_over_to_nobody();
    let holder = bench.acquire(1).await;
    bench.queue([2, 3, 4]).await;
    // Does nothing, because there is no offer.
    bench.decline(2).await;
    bench.revoke(holder).await;
    assert_eq!(woken(bench), [2], "it kept its queue position");
    bench.decline(2).await;
    assert_eq!(woken(bench), [3]);
    let third = granted(bench.claim(3).await);
    assert_eq!(bench.claim(2).await, AcquireOutcome::Queued, "it is eligible again");
    bench.revoke(third).await;
    assert_eq!(woken(bench), [2], "it kept its queue position");
    bench.decline(2).await;
    bench.pass(DROP_GRACE).await;
    assert_eq!(bench.claim(2).await, AcquireOutcome::Ended);
}

/// A store may offer the lock, or hand it over.
pub(crate) async fn a_handed_over_lock_is_passed_on_if_the_call_was_dropped(bench: &Bench<impl Harness>) {
    let holder = bench.acquire(1).await;
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

pub(crate) async fn a_claim_returns_the_lease_that_was_handed_over(bench: &Bench<impl Harness>) {
    let holder = bench.acquire(1).await;
    bench.queue([2]).await;
    bench.release(holder).await;
    let handed_over = RecordingNotices::take(&bench.notices().claimed);
    let claimed = granted(bench.claim(2).await);
    for (woken, outcome) in handed_over {
        let granted = granted(outcome.outcome);
        assert_eq!((woken, granted.lease_id, granted.token), (call(2, 1), claimed.lease_id, claimed.token));
    }
}

pub(crate) async fn a_try_ends_the_wait_of_its_own_request(bench: &Bench<impl Harness>) {
    let holder = bench.acquire(1).await;
    bench.queue([2]).await;
    assert!(matches!(bench.request(Acquire { call: call(2, 2), ..try_acquire(2) }).await, AcquireOutcome::TimedOut(_)));
    assert_eq!(woken(bench), [2], "the older call is woken");
    bench.release(holder).await;
    assert!(matches!(bench.request(acquire(2)).await, AcquireOutcome::TimedOut(_)), "it is not queued again");
    bench.acquire(3).await;
}

pub(crate) async fn a_full_queue_refuses_new_waiters_but_not_retries(bench: &Bench<impl Harness>) {
    bench.acquire(1).await;
    let last = 2 + WAITERS_MAX as u128;
    bench.queue(2..last).await;
    assert_eq!(bench.request(acquire(last)).await, AcquireOutcome::QueueFull);
    assert_eq!(
        bench.request(Acquire { call: call(2, 2), ..acquire(2) }).await,
        AcquireOutcome::Queued,
        "a retry is not a new waiter"
    );
    assert!(matches!(bench.give_up(3).await, AcquireOutcome::TimedOut(_)));
    assert_eq!(bench.request(acquire(last)).await, AcquireOutcome::Queued);
}

pub(crate) async fn an_expiry_wakes_the_next_waiter_without_a_command(bench: &Bench<impl Harness>) {
    bench.acquire(1).await;
    bench.queue([2]).await;
    bench.pass(TTL - Duration::from_secs(1)).await;
    assert_eq!(woken(bench), [0_u128; 0]);
    bench.pass(Duration::from_secs(1)).await;
    assert_eq!(woken(bench), [2]);
    assert_eq!(granted(bench.claim(2).await).previous_end, Some(LeaseEnd::Expired));
}

pub(crate) async fn claims_and_give_ups_of_an_unknown_request_answer_unknown(bench: &Bench<impl Harness>) {
    assert_eq!(bench.claim(1).await, AcquireOutcome::Unknown);
    assert_eq!(bench.give_up(1).await, AcquireOutcome::Unknown);
    bench.drop_call(1, 1).await;
    let other = try_acquire(1);
    assert_eq!(bench.request(other).await, AcquireOutcome::Overtaken, "its cleanup arrived first");
    granted(bench.request(Acquire { call: call(1, 2), ..try_acquire(1) }).await);
}

pub(crate) async fn a_waiter_learns_an_upper_bound_of_its_queue_position(bench: &Bench<impl Harness>) {
    let ahead = |number| bench.store().ahead(&bench.lock, call(number, 1));
    let holder = bench.acquire(1).await;
    assert_eq!(ahead(1), None, "the holder is not queued");
    bench.queue(2..5).await;
    assert_eq!([2, 3, 4].map(ahead), [Some(0), Some(1), Some(2)]);
    bench.release(holder).await;
    granted(bench.claim(2).await);
    assert_eq!(bench.claim(4).await, AcquireOutcome::Queued);
    assert_eq!([2, 4].map(ahead), [None, Some(1)]);
    bench.give_up(4).await;
    assert_eq!(ahead(4), None);
}
