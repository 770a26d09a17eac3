//! Waiting calls: their queue positions, and the cleanup after dropped ones.

use crate::{
    asks::{Asks, acquire, granted},
    notices::RecordingNotices,
    proxy::Proxy,
    redis_server::Redis,
    server_on, serving, start_on_url, store_on,
    support::{Lock, acquire_request, assert_refused, until, waiting_request, within},
};
use fencepost::{
    domain::{
        command::Command,
        ids::RequestId,
        limits::{DROP_GRACE, REPLICA_GONE},
        name::LockName,
        outcome::{AcquireOutcome, ReleaseOutcome},
        time::micros,
    },
    store::{
        Store as _,
        redis::{keys, scripts},
    },
};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

const TTL: Duration = Duration::from_secs(60);

/// Two calls of one attempt wait. The claim of one is refused, and the call is dropped. The other stays queued, and is
/// offered the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_claim_was_refused_does_not_drop_another_call_of_its_attempt() {
    let redis = Redis::start(&[]);
    let notices = Arc::new(RecordingNotices::default());
    let (store, maintenance) = store_on(&redis.url(), notices.clone()).await;
    let name = LockName::new("a".into()).unwrap();
    let bucket = format!("{}b", keys::base(keys::bucket(&name)));
    let (holder, waiter) = (RequestId(Uuid::new_v4()), RequestId(Uuid::new_v4()));
    let grant = granted(store.acquire(&name, acquire(holder, TTL, false)).await.unwrap());
    let calls = [acquire(waiter, TTL, true), acquire(waiter, TTL, true)];
    for call in calls.clone() {
        assert_eq!(store.acquire(&name, call).await, Ok(AcquireOutcome::Queued));
    }
    let [dropped, alive] = calls.map(|it| it.call);
    // As if a server that knows a newer incarnation had drawn a token.
    redis.command(&["DEBUG", "CHANGE-REPL-ID"]);
    redis.command(&["HSET", &bucket, "inc", "a newer one"]);
    assert_eq!(store.claim(&name, dropped).await.map(|it| it.outcome), Ok(AcquireOutcome::LeftBehind));
    store.post(&name, Command::DropCall(dropped));
    within(store.chores_done()).await;
    RecordingNotices::take(&notices.hints);
    // Nothing is done through a connection to the earlier incarnation. All connections are replaced within seconds.
    until(|| async { store.release(&name, grant.lease_id).await == Ok(ReleaseOutcome::Released) }).await;
    until(|| async { notices.is_woken(waiter, 1) }).await;
    let claimed = store.claim(&name, alive).await.map(|it| it.outcome);
    assert!(matches!(claimed, Ok(AcquireOutcome::Granted(_))), "{claimed:?}");
    maintenance.abort();
}

#[tokio::test]
async fn servers_that_are_gone_are_deleted_from_redis() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    server.client().acquire_lease(acquire_request("a", TTL)).await;
    let bucket = keys::bucket(&LockName::new("a".into()).unwrap());
    let replicas = format!("{}r", keys::base(bucket));
    let now = redis.command(&["TIME"]).text();
    let (seconds, rest) = now.split_once(' ').unwrap();
    let now: u64 = seconds.parse::<u64>().unwrap() * 1_000_000 + rest.parse::<u64>().unwrap();
    let id = || Uuid::new_v4().simple().to_string();
    let (gone, silent) = (id(), id());
    redis.command(&["HSET", &replicas, &gone, &(now - micros(REPLICA_GONE)).to_string()]);
    redis.command(&["HSET", &replicas, &silent, &(now - micros(REPLICA_GONE) / 3).to_string()]);
    let mut waiting = server.client();
    let waiter = tokio::spawn(async move { waiting.acquire(waiting_request("a", TTL, TTL)).await });
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    let is_known = |replica: &str| redis.command(&["HEXISTS", &replicas, replica]).text() == "1";
    assert!(!is_known(&gone));
    assert!(is_known(&silent), "a silent server may come back");
    assert_eq!(redis.command(&["HLEN", &replicas]).text(), "2", "the silent server and the live one");
    waiter.abort();
}

/// A proxy repeats a call through a second server, and the repeat is dropped. The offer goes to the server of the
/// repeat, which declines it. The other call must be served, and not be overtaken. Found by the torture test.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_served_after_its_repeat_through_another_server_is_dropped() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let held = one.client().acquire_lease(acquire_request("a", TTL)).await;
    let request = waiting_request("a", TTL, TTL);
    let (mut first, mut repeated) = (one.client(), two.client());
    let (sent, again) = (request.clone(), request);
    let first = tokio::spawn(async move { first.acquire_lease(sent).await });
    until(|| async { one.client().lock_info("a").await.waiters == 1 }).await;
    let waiters = format!("{}w:a", keys::base(keys::bucket(&LockName::new("a".to_owned()).unwrap())));
    let bound =
        || redis.command(&["EVAL", "return redis.sha1hex(redis.call('HVALS', KEYS[1])[1])", "1", &waiters]).text();
    let before = bound();
    let repeat = tokio::spawn(async move { repeated.acquire(again).await });
    until(|| async { bound() != before }).await;
    let both = bound();
    repeat.abort();
    until(|| async { bound() != both }).await;
    one.client().release_lease(&held).await;
    let lease = within(first).await.unwrap();
    assert!(lease.fencing_token > held.fencing_token);
}

/// A proxy repeats a call through another server. The first call is dropped, and the answer to its cleanup is lost. The
/// repeated cleanup must not drop the other call.
#[tokio::test]
async fn a_repeated_cleanup_does_not_drop_another_call_of_the_attempt() {
    let redis = Redis::start(&[]);
    let source = scripts::source(scripts::flags(scripts::DROP_CALL), scripts::PRESENT, None);
    redis.command(&["SCRIPT", "LOAD", &source]);
    let proxy = Proxy::dropping_replies_from(scripts::DROP_CALL, redis.port).await;
    let (one, two) = (start_on_url(proxy.url()).await, server_on(&redis).await);
    until(|| async { one.client().acquire(acquire_request("probe", TTL)).await.is_ok() }).await;
    let held = two.client().acquire_lease(acquire_request("a", TTL)).await;
    let request = waiting_request("a", TTL, TTL);
    let (mut dropped, mut other) = (one.client(), two.client());
    let (sent, again) = (request.clone(), request);
    let first = tokio::spawn(async move { dropped.acquire(sent).await });
    until(|| async { two.client().lock_info("a").await.waiters == 1 }).await;
    let waiters = format!("{}w:a", keys::base(keys::bucket(&LockName::new("a".to_owned()).unwrap())));
    let bound =
        || redis.command(&["EVAL", "return redis.sha1hex(redis.call('HVALS', KEYS[1])[1])", "1", &waiters]).text();
    let before = bound();
    let second = tokio::spawn(async move { other.acquire_lease(again).await });
    until(|| async { bound() != before }).await;
    first.abort();
    until(|| async { proxy.seen() > 0 }).await;
    // Longer than all attempts of a cleanup, each with a timeout of half a second and a pause.
    tokio::time::sleep(Duration::from_secs(5)).await;
    two.client().release_lease(&held).await;
    let lease = within(second).await.unwrap();
    assert!(lease.fencing_token > held.fencing_token);
}

/// Connections to Redis break with an acquire in flight. The client, or gRPC's own retry policy, repeats the call with
/// the same attempt through the same server. The cleanup of the first call is retried until Redis is back. It must not
/// cut short the lease of the second call, which was granted with its full TTL: the lock would have two holders.
#[tokio::test(flavor = "multi_thread")]
async fn the_cleanup_of_a_failed_call_does_not_cut_the_lease_of_its_repeat() {
    let redis = Redis::start(&[]);
    let source = scripts::source(scripts::flags(scripts::ACQUIRE), scripts::PRESENT, None);
    redis.command(&["SCRIPT", "LOAD", &source]);
    // The cleanup and the repeat race in each round.
    for round in 0..6 {
        let proxy = Proxy::dropping_replies_from(scripts::ACQUIRE, redis.port).await;
        let server = start_on_url(proxy.url()).await;
        serving(&server, true).await;
        let request = acquire_request(&format!("lock {round}"), TTL);
        let (mut client, sent) = (server.client(), request.clone());
        let first = tokio::spawn(async move { client.acquire(sent).await });
        until(|| async { proxy.seen() > 0 }).await;
        proxy.break_off();
        assert_refused(within(first).await.unwrap(), tonic::Code::Unavailable, "OUTCOME_UNKNOWN");
        // As if the call had been lost.
        redis.command(&["FLUSHALL"]);
        proxy.open();
        let lease = within(async {
            loop {
                if let Ok(answer) = server.client().acquire(request.clone()).await {
                    break answer.into_inner().lease.unwrap();
                }
            }
        })
        .await;
        // Longer than all attempts of the cleanup.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let current = server.client().holder(&request.lock_name).await.unwrap();
        assert_eq!(current.fencing_token, lease.fencing_token);
        let left = Duration::try_from(current.expires_in.unwrap()).unwrap();
        assert!(left > TTL - Duration::from_secs(10), "round {round}: only {left:?} of the lease is left");
    }
}

/// A call that Redis refused needs no cleanup. The same attempt, which a proxy sends through another server, must be
/// granted the lock and keep it. Found by the torture test.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_was_refused_at_one_server_is_served_by_another() {
    const SHORT: Duration = Duration::from_secs(5);
    let redis = Redis::start(&[]);
    let (one, two) = (server_on(&redis).await, server_on(&redis).await);
    let request = acquire_request("a", SHORT);
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = one.client().acquire(request.clone()).await;
    assert_refused(refused, tonic::Code::Unavailable, "STORE_UNAVAILABLE");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    let lease = two.client().acquire_lease(request).await;
    // Longer than the lease of a dropped call lasts.
    tokio::time::sleep(DROP_GRACE + SHORT / 10).await;
    assert_eq!(two.client().holder("a").await.map(|it| it.fencing_token), Some(lease.fencing_token));
}
