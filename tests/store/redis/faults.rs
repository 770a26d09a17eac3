//! Faults of Redis: it is down, paused, out of memory, read-only, or loses its data.

use crate::{
    asks::Asks,
    notices::RecordingNotices,
    redis_server::Redis,
    server_on, serving, start_on,
    stream::{Stream, attachment},
    support::{Lock, acquire_request, assert_refused, until, waiting_request, within},
};
use fencepost::{
    domain::{
        command::{Command, Outcome},
        ids::{AttachmentId, LeaseId},
        limits::Limits,
        name::LockName,
        outcome::RenewOutcome,
    },
    node::RedisUrl,
    store::{Store as _, redis::RedisStore},
};
use fencepost_proto::v1::{
    self, LeaseEnd, acquire_response::Outcome as Acquired, keep_alive_response::Message as ServerMessage,
};
use futures_util::FutureExt;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tonic::Code;
use tonic_types::StatusExt;
use uuid::Uuid;

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(50);

#[tokio::test]
async fn a_server_starts_without_redis_and_serves_when_redis_is_up() {
    let mut redis = Redis::start(&[]);
    redis.kill();
    let server = start_on(&redis).await;
    serving(&server, false).await;
    let refused = server.client().acquire(acquire_request("a", TTL)).await;
    let status = assert_refused(refused, Code::Unavailable, "STORE_UNAVAILABLE");
    assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());
    redis.restart(false);
    serving(&server, true).await;
    server.client().acquire_lease(acquire_request("a", TTL)).await;
}

#[tokio::test]
async fn a_command_that_timed_out_while_redis_was_paused_has_no_effect() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    // The connection is made, and Redis knows the scripts.
    let lease = server.client().acquire_lease(acquire_request("warm-up", TTL)).await;
    server.client().release_lease(&lease).await;
    redis.pause();
    let request = acquire_request("a", TTL);
    let sent = Instant::now();
    let unknown = server.client().acquire(request.clone()).await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unavailable);
    assert!(sent.elapsed() < Duration::from_secs(10), "answered in time");
    // Longer than the command window, so that the commands in Redis's buffer are stale when it resumes.
    tokio::time::sleep(Duration::from_secs(1)).await;
    redis.resume();
    serving(&server, true).await;
    until(|| async { server.client().acquire(acquire_request("probe", TTL)).await.is_ok() }).await;
    assert_eq!(server.client().holder("a").await, None, "the stale command had no effect");
    server.client().acquire_lease(v1::AcquireRequest { attempt: 2, ..request }).await;
}

#[tokio::test]
async fn leases_are_at_risk_while_redis_is_paused_and_are_kept_if_it_resumes_in_time() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let ttl = Duration::from_secs(9);
    let lease = server.client().acquire_lease(acquire_request("a", ttl)).await;
    let mut stream = Stream::open(server.client()).await;
    stream.attach(vec![attachment(1, &lease)]).await;
    assert!(matches!(stream.next_but_beats(true).await, ServerMessage::Attached(_)));
    redis.pause();
    let ServerMessage::AtRisk(at_risk) = stream.next_but_beats(true).await else { panic!("not at risk") };
    assert_eq!(at_risk.handles, [1]);
    redis.resume();
    within(async { while !matches!(stream.next_but_beats(true).await, ServerMessage::Renewed(_)) {} }).await;
    let current = server.client().holder("a").await.unwrap();
    assert_eq!(current.fencing_token, lease.fencing_token);
}

#[tokio::test]
async fn after_a_flush_tokens_are_higher_and_waiters_must_retry() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    let mut waiting = server.client();
    let waiter = tokio::spawn(async move { waiting.acquire(waiting_request("a", TTL, LONG)).await });
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    redis.command(&["FLUSHALL"]);
    let refused = within(waiter).await.unwrap();
    assert_refused(refused, Code::Unavailable, "PLACE_LOST");
    let next = server.client().acquire_lease(acquire_request("a", TTL)).await;
    assert!(next.fencing_token > lease.fencing_token);
    assert_eq!(server.client().release_lease(&lease).await, LeaseEnd::Superseded);
}

#[tokio::test]
async fn the_server_reloads_scripts_and_reconnects() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    for round in 0..20 {
        let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
        redis.command(&["SCRIPT", "FLUSH"]);
        server.client().release_lease(&lease).await;
        if round % 5 == 0 {
            redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        }
    }
    redis.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    until(|| async { server.client().acquire(acquire_request("b", TTL)).await.is_ok() }).await;
}

#[tokio::test]
async fn a_redis_out_of_memory_refuses_grants_and_accepts_releases() {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]);
    let server = server_on(&redis).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_refused(server.client().acquire(acquire_request("b", TTL)).await, Code::Unavailable, "STORE_UNAVAILABLE");
    assert_eq!(server.client().release_lease(&lease).await, LeaseEnd::Released);
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    server.client().acquire_lease(acquire_request("b", TTL)).await;
}

/// Also after the next check of Redis, which the server makes every ten seconds.
#[tokio::test]
async fn leases_are_renewed_on_a_redis_that_stays_out_of_memory() {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]);
    let server = server_on(&redis).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let end = Instant::now() + Duration::from_secs(14);
    while Instant::now() < end {
        let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
        let renewed = within(server.client().renew(v1::RenewRequest { lock_name, lease_id, ttl: None })).await;
        assert_eq!(renewed.unwrap().into_inner().outcome(), v1::renew_response::Outcome::Renewed);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(server.client().release_lease(&lease).await, LeaseEnd::Released);
}

/// Such a Redis refuses all writes. Also after the next check.
#[tokio::test]
async fn locks_can_be_read_on_a_redis_without_enough_replicas() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let end = Instant::now() + Duration::from_secs(14);
    while Instant::now() < end {
        assert_eq!(server.client().holder("a").await.unwrap().fencing_token, lease.fencing_token);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_refused(server.client().acquire(acquire_request("b", TTL)).await, Code::Unavailable, "STORE_UNAVAILABLE");
}

#[tokio::test]
async fn an_acquire_on_a_key_of_another_type_fails_without_a_partial_grant() {
    use fencepost::{domain::name::LockName, store::redis::keys};
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    for letter in ["l", "w", "d"] {
        let name = LockName::new(format!("planted {letter}")).unwrap();
        let key = format!("{}{letter}:{name}", keys::base(keys::bucket(&name)));
        redis.command(&["SET", &key, "not ours"]);
        let request = acquire_request(name.as_str(), TTL);
        let refused = server.client().acquire(request.clone()).await;
        // Only waiting requests use the keys of the queue.
        if refused.as_ref().is_ok() {
            assert!(["w", "d"].contains(&letter), "{letter}");
            let waiting = server.client().acquire(waiting_request(name.as_str(), TTL, LONG)).await;
            assert_refused(waiting, Code::DataLoss, "STORE_CORRUPT");
        } else {
            assert_refused(refused, Code::DataLoss, "STORE_CORRUPT");
            redis.command(&["DEL", &key]);
            assert_eq!(server.client().holder(name.as_str()).await, None);
            server.client().acquire_lease(v1::AcquireRequest { attempt: 2, ..request }).await;
        }
    }
}

/// The keys of the ended requests other than the newest.
#[tokio::test]
async fn a_release_on_an_ends_key_of_another_type_fails_without_a_partial_release() {
    use fencepost::{domain::name::LockName, store::redis::keys};
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let release_of =
        |lease: &v1::Lease| v1::ReleaseRequest { lock_name: lease.lock_name.clone(), lease_id: lease.lease_id.clone() };
    for letter in ["e", "o"] {
        let name = LockName::new(format!("planted {letter}")).unwrap();
        let key = format!("{}{letter}:{name}", keys::base(keys::bucket(&name)));
        // The newest end uses neither key; a second one uses the first, and a waiting request reads both.
        let lease = server.client().acquire_lease(acquire_request(name.as_str(), TTL)).await;
        server.client().release_lease(&lease).await;
        let lease = server.client().acquire_lease(acquire_request(name.as_str(), TTL)).await;
        redis.command(&["SET", &key, "not ours"]);
        if letter == "e" {
            assert_refused(server.client().release(release_of(&lease)).await, Code::DataLoss, "STORE_CORRUPT");
        }
        let waiting = server.client().acquire(waiting_request(name.as_str(), TTL, LONG)).await;
        assert_refused(waiting, Code::DataLoss, "STORE_CORRUPT");
        let held = server.client().holder(name.as_str()).await.unwrap();
        assert_eq!(held.fencing_token, lease.fencing_token);
        redis.command(&["DEL", &key]);
        assert_eq!(server.client().release_lease(&lease).await, v1::LeaseEnd::Released);
    }
}

#[tokio::test]
async fn a_server_does_not_serve_on_a_redis_that_became_a_replica_until_it_is_promoted() {
    let (redis, other) = (Redis::start(&[]), Redis::start(&[]));
    let server = server_on(&redis).await;
    server.client().acquire_lease(acquire_request("a", TTL)).await;
    redis.command(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]);
    let refused = server.client().acquire(acquire_request("b", TTL)).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
    serving(&server, false).await;
    redis.command(&["REPLICAOF", "NO", "ONE"]);
    serving(&server, true).await;
    server.client().acquire_lease(acquire_request("b", TTL)).await;
}

#[tokio::test]
async fn waiters_survive_a_restart_that_keeps_the_data() {
    let mut redis = Redis::start(&["--appendonly", "yes"]);
    let server = server_on(&redis).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    let mut waiting = server.client();
    let waiter = tokio::spawn(async move { waiting.acquire_response(waiting_request("a", TTL, LONG)).await });
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    redis.kill();
    redis.restart(true);
    serving(&server, true).await;
    until(|| async {
        let release = v1::ReleaseRequest { lock_name: "a".into(), lease_id: lease.lease_id.clone() };
        server.client().release(release).await.is_ok()
    })
    .await;
    let served = within(waiter).await.unwrap();
    assert_eq!(served.outcome(), Acquired::Acquired);
    assert!(served.lease.unwrap().fencing_token > lease.fencing_token);
}

/// Commands of a client that does not read its stream are not polled. They must not block other commands, neither
/// during the check of a new incarnation of Redis nor in a renewal. The torture test found the bug: a server did not
/// serve again after a restart of Redis.
#[tokio::test]
async fn commands_that_are_not_polled_do_not_block_others() {
    let redis = Redis::start(&["--maxmemory-policy", "allkeys-lru"]);
    let (url, notices) = (RedisUrl::parse(&redis.url()).unwrap(), Arc::new(RecordingNotices::default()));
    let store = Arc::new(RedisStore::new(&url, &Limits::default(), notices));
    let maintained = store.clone();
    let maintenance = tokio::spawn(async move { maintained.maintain().await });
    let name = LockName::new("a".into()).unwrap();
    // Refused at once without a connection and shortly after each failed check; in flight otherwise.
    let mut stalled = Vec::new();
    until(|| {
        let mut view = Box::pin(store.view(&name));
        let is_in_flight = view.as_mut().now_or_never().is_none();
        stalled.extend(is_in_flight.then_some(view));
        std::future::ready(is_in_flight)
    })
    .await;
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    within(store.up().wait_for(|up| *up)).await.unwrap();
    within(store.view(&name)).await.unwrap();
    let lease_id = LeaseId(Uuid::new_v4());
    let attachment = AttachmentId(Uuid::new_v4());
    let renewals = |count| vec![(&name, Command::RenewKept(lease_id, attachment)); count];
    let mut renewing: Vec<_> = (0..4).map(|_| Box::pin(store.run_each(renewals(2_000)))).collect();
    assert!(renewing.iter_mut().all(|all| all.as_mut().now_or_never().is_none()), "they are in flight");
    let answer = within(store.run_each(renewals(1))).await.remove(0).unwrap();
    assert!(matches!(answer.outcome, Outcome::Renew(RenewOutcome::Lost(_))), "{answer:?}");
    drop((stalled, renewing));
    maintenance.abort();
}

/// A cursor that no scan of Redis has. It is the client's mistake, and not reported as damaged data.
#[tokio::test]
async fn an_invalid_page_token_is_refused() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    for page_token in ["ffffffffffffffff.0", "20000000000000.0", "0", "x.0", "0.x"] {
        let request = v1::ListRequest { page_token: page_token.into(), ..v1::ListRequest::default() };
        assert_refused(server.client().list(request).await, Code::InvalidArgument, "INVALID_FIELD");
    }
    let request = v1::ListRequest { page_token: "1fffffffffffff.0".into(), ..v1::ListRequest::default() };
    within(server.client().list(request)).await.unwrap();
}
