//! Grants, repeats, and what is remembered of them.

use crate::bench::{Bench, Harness, TTL, call, granted, name, terms, wish};
use fencepost::domain::{
    command::{Acquire, Command},
    lease::{LeaseEnd, Terms},
    limits::{DROP_GRACE, ENDED_MEMORY, MIN_TOKEN_AHEAD_MAX},
    outcome::{AcquireOutcome, LockView},
};
use std::time::Duration;

pub(crate) async fn a_free_lock_is_granted_and_a_held_one_is_not(bench: &Bench<impl Harness>) {
    let grant = bench.take(1).await;
    assert_eq!((grant.previous_end, grant.left), (None, TTL));
    let AcquireOutcome::Contended(contention) = bench.ask(wish(2)).await else { panic!("the lock is held") };
    let current = contention.current.unwrap();
    assert_eq!((current.token, current.grant_id, contention.waiters), (grant.token, grant.grant_id, 0));
    bench.release(grant).await;
    assert_eq!(bench.take(3).await.previous_end, Some(LeaseEnd::Released));
}

pub(crate) async fn tokens_rise_over_every_kind_of_end(bench: &Bench<impl Harness>) {
    let released = bench.take(1).await;
    bench.release(released).await;
    let revoked = bench.take(2).await;
    bench.revoke(revoked).await;
    let expired = bench.take(3).await;
    bench.pass(TTL).await;
    let forgotten = bench.take(4).await;
    bench.release(forgotten).await;
    bench.pass(ENDED_MEMORY).await;
    let last = bench.take(5).await;
    assert_eq!(last.previous_end, None, "what is no longer remembered is not known");
    let tokens = [released.token, revoked.token, expired.token, forgotten.token, last.token];
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    let ends = [revoked.previous_end, expired.previous_end, forgotten.previous_end];
    assert_eq!(ends, [Some(LeaseEnd::Released), Some(LeaseEnd::Revoked), Some(LeaseEnd::Expired)]);
}

pub(crate) async fn a_min_token_is_a_floor_within_its_bound(bench: &Bench<impl Harness>) {
    let first = bench.take(1).await;
    bench.release(first).await;
    let floor = first.token.get() + 3_600_000_000;
    let with_floor = |number, min_token| Acquire { terms: Terms { min_token, ..terms() }, ..wish(number) };
    let raised = granted(bench.ask(with_floor(2, floor)).await);
    assert_eq!(raised.token.get(), floor);
    bench.release(raised).await;
    let next = bench.take(3).await;
    assert_eq!(next.token.get(), floor + 1);
    bench.release(next).await;
    let day = u64::try_from(MIN_TOKEN_AHEAD_MAX.as_micros()).unwrap();
    let AcquireOutcome::MinTokenTooHigh(max) = bench.ask(with_floor(4, floor + day)).await else {
        panic!("too far ahead")
    };
    assert!(max >= first.token.get() && max < floor + day);
    assert_eq!(bench.view().await.current, None);
}

pub(crate) async fn a_repeat_answers_the_same_lease(bench: &Bench<impl Harness>) {
    let grant = bench.take(1).await;
    bench.pass(Duration::from_secs(1)).await;
    for attempt in [1, 2, 2, 5] {
        let repeat = granted(bench.ask(Acquire { call: call(1, attempt), ..wish(1) }).await);
        assert_eq!((repeat.lease_id, repeat.grant_id, repeat.token), (grant.lease_id, grant.grant_id, grant.token));
        assert!(repeat.left < TTL, "a repeat finds less, and renews nothing");
    }
}

pub(crate) async fn an_older_attempt_is_overtaken(bench: &Bench<impl Harness>) {
    granted(bench.ask(Acquire { call: call(1, 3), ..wish(1) }).await);
    assert_eq!(bench.ask(Acquire { call: call(1, 2), ..wish(1) }).await, AcquireOutcome::Overtaken);
    bench.drop_call(1, 2).await;
    assert!(bench.view().await.current.unwrap().left > DROP_GRACE, "nor does its cleanup act");
}

pub(crate) async fn an_attempt_that_comes_after_a_newer_one_was_refused_changes_nothing(bench: &Bench<impl Harness>) {
    let holder = bench.take(1).await;
    let retry = bench.ask(Acquire { call: call(2, 2), ..wish(2) }).await;
    assert!(matches!(retry, AcquireOutcome::Contended(_)));
    bench.release(holder).await;
    let late = bench.ask(Acquire { call: call(2, 1), wait: true, ..wish(2) }).await;
    assert_eq!(late, AcquireOutcome::Overtaken, "its caller heard that it does not have the lock");
    assert_eq!(bench.view().await.current, None);
    granted(bench.ask(Acquire { call: call(2, 3), ..wish(2) }).await);
}

pub(crate) async fn other_terms_are_refused(bench: &Bench<impl Harness>) {
    let other = |number| Acquire { terms: Terms { fingerprint: 8, ..terms() }, call: call(number, 9), ..wish(number) };
    let held = bench.take(1).await;
    bench.queue([2]).await;
    assert_eq!(bench.ask(other(1)).await, AcquireOutcome::OtherTerms);
    assert_eq!(bench.ask(other(2)).await, AcquireOutcome::OtherTerms);
    bench.release(held).await;
    assert_eq!(bench.ask(other(1)).await, AcquireOutcome::OtherTerms);
}

pub(crate) async fn an_ended_request_is_remembered_for_ten_seconds(bench: &Bench<impl Harness>) {
    let released = bench.take(1).await;
    bench.release(released).await;
    bench.pass(ENDED_MEMORY - Duration::from_secs(1)).await;
    for attempt in [1, 2] {
        let late = bench.ask(Acquire { call: call(1, attempt), wait: true, ..wish(1) }).await;
        assert_eq!(late, AcquireOutcome::Ended, "a late duplicate neither locks nor queues");
    }
    assert_eq!(bench.view().await.current, None);
    bench.pass(Duration::from_secs(1)).await;
    bench.take(1).await;
}

pub(crate) async fn a_dropped_grant_is_cut_and_a_retry_re_arms_it(bench: &Bench<impl Harness>) {
    let grant = bench.take(1).await;
    bench.drop_call(1, 1).await;
    assert!(bench.view().await.current.unwrap().left <= DROP_GRACE);
    let retry = granted(bench.ask(Acquire { call: call(1, 2), ..wish(1) }).await);
    assert_eq!((retry.lease_id, retry.left), (grant.lease_id, TTL));
    bench.drop_call(1, 1).await;
    assert_eq!(bench.view().await.current.unwrap().left, TTL, "the cleanup of an overtaken call does nothing");
    bench.drop_call(1, 2).await;
    bench.pass(DROP_GRACE).await;
    assert_eq!(bench.take(2).await.previous_end, Some(LeaseEnd::Expired));
    assert_eq!(bench.ask(Acquire { call: call(1, 3), ..wish(1) }).await, AcquireOutcome::Ended);
}

pub(crate) async fn locks_of_other_names_do_not_meddle(bench: &Bench<impl Harness>) {
    let mut grants = Vec::new();
    for number in 0..200_u128 {
        let lock = name(&format!("lock/{number}"));
        let outcome = bench.run_on(&lock, Command::Acquire(wish(number))).await;
        grants.push((lock, granted(outcome)));
    }
    for (lock, grant) in grants {
        let view: Box<LockView> = bench.run_on(&lock, Command::View).await;
        assert_eq!(view.current.unwrap().token, grant.token);
    }
    assert_eq!(bench.view().await.current, None);
}

pub(crate) async fn racing_for_one_lock_one_wins(bench: &Bench<impl Harness>) {
    let race = |number: u128| async move { matches!(bench.ask(wish(number)).await, AcquireOutcome::Granted(_)) };
    let (a, b, c, d) = tokio::join!(race(1), race(2), race(3), race(4));
    assert_eq!([a, b, c, d].into_iter().filter(|won| *won).count(), 1);
}
