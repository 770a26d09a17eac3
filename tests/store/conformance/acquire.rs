//! Grants, repeats, and the memory of ended requests.

use crate::bench::{Bench, Harness, TTL, call, granted, name, terms, try_acquire};
use fencepost::testing::domain::{
    command::{Acquire, Command},
    lease::{LeaseEnd, Terms},
    limits::{DROP_GRACE, ENDED_MEMORY, MIN_TOKEN_AHEAD_MAX},
    outcome::{AcquireOutcome, LockView},
};
use std::time::Duration;

pub(crate) async fn a_free_lock_is_granted_and_a_held_one_is_refused(bench: &Bench<impl Harness>) {
    let grant = bench.acquire(1).await;
    assert_eq!((grant.previous_end, grant.left), (None, TTL));
    let AcquireOutcome::Contended(contention) = bench.request(try_acquire(2)).await else { panic!("the lock is held") };
    let current = contention.current.unwrap();
    assert_eq!((current.token, current.grant_id, contention.waiters), (grant.token, grant.grant_id, 0));
    bench.release(grant).await;
    assert_eq!(bench.acquire(3).await.previous_end, Some(LeaseEnd::Released));
}

pub(crate) async fn tokens_rise_after_every_kind_of_end(bench: &Bench<impl Harness>) {
    let released = bench.acquire(1).await;
    bench.release(released).await;
    let revoked = bench.acquire(2).await;
    bench.revoke(revoked).await;
    let expired = bench.acquire(3).await;
    bench.pass(TTL).await;
    let forgotten = bench.acquire(4).await;
    bench.release(forgotten).await;
    bench.pass(ENDED_MEMORY).await;
    let last = bench.acquire(5).await;
    assert_eq!(last.previous_end, None, "the previous end is forgotten");
    let tokens = [released.token, revoked.token, expired.token, forgotten.token, last.token];
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    let ends = [revoked.previous_end, expired.previous_end, forgotten.previous_end];
    assert_eq!(ends, [Some(LeaseEnd::Released), Some(LeaseEnd::Revoked), Some(LeaseEnd::Expired)]);
}

pub(crate) async fn a_min_token_raises_the_token_up_to_a_limit(bench: &Bench<impl Harness>) {
    let first = bench.acquire(1).await;
    bench.release(first).await;
    let floor = first.token.get() + 3_600_000_000;
    let with_floor = |number, min_token| Acquire { terms: Terms { min_token, ..terms() }, ..try_acquire(number) };
    let raised = granted(bench.request(with_floor(2, floor)).await);
    assert_eq!(raised.token.get(), floor);
    bench.release(raised).await;
    let next = bench.acquire(3).await;
    assert_eq!(next.token.get(), floor + 1);
    bench.release(next).await;
    let day = u64::try_from(MIN_TOKEN_AHEAD_MAX.as_micros()).unwrap();
    let AcquireOutcome::MinTokenTooHigh(max) = bench.request(with_floor(4, floor + day)).await else {
        panic!("too far ahead")
    };
    assert!(max >= first.token.get() && max < floor + day);
    assert_eq!(bench.view().await.current, None);
}

pub(crate) async fn a_repeat_returns_the_same_lease(bench: &Bench<impl Harness>) {
    let grant = bench.acquire(1).await;
    bench.pass(Duration::from_secs(1)).await;
    for attempt in [1, 2, 2, 5] {
        let repeat = granted(bench.request(Acquire { call: call(1, attempt), ..try_acquire(1) }).await);
        assert_eq!((repeat.lease_id, repeat.grant_id, repeat.token), (grant.lease_id, grant.grant_id, grant.token));
        assert!(repeat.left < TTL, "a repeat does not renew");
    }
}

pub(crate) async fn an_older_attempt_is_overtaken(bench: &Bench<impl Harness>) {
    granted(bench.request(Acquire { call: call(1, 3), ..try_acquire(1) }).await);
    assert_eq!(bench.request(Acquire { call: call(1, 2), ..try_acquire(1) }).await, AcquireOutcome::Overtaken);
    bench.drop_call(1, 2).await;
    assert!(bench.view().await.current.unwrap().left > DROP_GRACE, "its cleanup does nothing");
}

pub(crate) async fn an_older_attempt_after_the_refusal_of_a_newer_one_changes_nothing(bench: &Bench<impl Harness>) {
    let holder = bench.acquire(1).await;
    let retry = bench.request(Acquire { call: call(2, 2), ..try_acquire(2) }).await;
    assert!(matches!(retry, AcquireOutcome::Contended(_)));
    bench.release(holder).await;
    let late = bench.request(Acquire { call: call(2, 1), wait: true, ..try_acquire(2) }).await;
    assert_eq!(late, AcquireOutcome::Overtaken, "the newer attempt was refused");
    assert_eq!(bench.view().await.current, None);
    granted(bench.request(Acquire { call: call(2, 3), ..try_acquire(2) }).await);
}

pub(crate) async fn other_terms_are_refused(bench: &Bench<impl Harness>) {
    let other =
        |number| Acquire { terms: Terms { fingerprint: 8, ..terms() }, call: call(number, 9), ..try_acquire(number) };
    let held = bench.acquire(1).await;
    bench.queue([2]).await;
    assert_eq!(bench.request(other(1)).await, AcquireOutcome::OtherTerms);
    assert_eq!(bench.request(other(2)).await, AcquireOutcome::OtherTerms);
    bench.release(held).await;
    assert_eq!(bench.request(other(1)).await, AcquireOutcome::OtherTerms);
}

pub(crate) async fn an_ended_request_is_remembered_for_10_s(bench: &Bench<impl Harness>) {
    let released = bench.acquire(1).await;
    bench.release(released).await;
    bench.pass(ENDED_MEMORY - Duration::from_secs(1)).await;
    for attempt in [1, 2] {
        let late = bench.request(Acquire { call: call(1, attempt), wait: true, ..try_acquire(1) }).await;
        assert_eq!(late, AcquireOutcome::Ended, "a late duplicate is neither granted nor queued");
    }
    assert_eq!(bench.view().await.current, None);
    bench.pass(Duration::from_secs(1)).await;
    bench.acquire(1).await;
}

pub(crate) async fn a_dropped_grant_is_cut_short_and_a_retry_restores_its_ttl(bench: &Bench<impl Harness>) {
    let grant = bench.acquire(1).await;
    bench.drop_call(1, 1).await;
    assert!(bench.view().await.current.unwrap().left <= DROP_GRACE);
    let retry = granted(bench.request(Acquire { call: call(1, 2), ..try_acquire(1) }).await);
    assert_eq!((retry.lease_id, retry.left), (grant.lease_id, TTL));
    bench.drop_call(1, 1).await;
    assert_eq!(bench.view().await.current.unwrap().left, TTL, "the cleanup of an overtaken call does nothing");
    bench.drop_call(1, 2).await;
    bench.pass(DROP_GRACE).await;
    assert_eq!(bench.acquire(2).await.previous_end, Some(LeaseEnd::Expired));
    assert_eq!(bench.request(Acquire { call: call(1, 3), ..try_acquire(1) }).await, AcquireOutcome::Ended);
}

pub(crate) async fn locks_with_other_names_are_independent(bench: &Bench<impl Harness>) {
    let mut grants = Vec::new();
    for number in 0..200_u128 {
        let lock = name(&format!("lock/{number}"));
        let outcome = bench.run_on(&lock, Command::Acquire(try_acquire(number))).await;
        grants.push((lock, granted(outcome)));
    }
    for (lock, grant) in grants {
        let view: Box<LockView> = bench.run_on(&lock, Command::View { token: None }).await;
        assert_eq!(view.current.unwrap().token, grant.token);
    }
    assert_eq!(bench.view().await.current, None);
}

pub(crate) async fn one_of_several_concurrent_requests_is_granted(bench: &Bench<impl Harness>) {
    let race =
        |number: u128| async move { matches!(bench.request(try_acquire(number)).await, AcquireOutcome::Granted(_)) };
    let (a, b, c, d) = tokio::join!(race(1), race(2), race(3), race(4));
    assert_eq!([a, b, c, d].into_iter().filter(|won| *won).count(), 1);
}
