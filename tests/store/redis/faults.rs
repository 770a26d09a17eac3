//! Faults of Redis: it is down, paused, out of memory, read-only, or loses its data.

use crate::{
    make_store,
    proxy::Proxy,
    redis_server::Redis,
    server_on, serving, start_on, start_on_url,
    stream::{Stream, attachment},
    support::{Lock, acquire_request, assert_refused, only, until, waiting_request, within},
};
use fencepost::testing::store::quorum::config::bootstrap::PARTITIONS;
use fencepost_proto::v1::{
    self, LeaseEnd, acquire_response::Outcome as Acquired, keep_alive_response::Message as ServerMessage,
};
use std::time::Duration;
use tokio::time::Instant;
use tonic::Code;
use tonic_types::StatusExt;

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

/// The examination of Redis asked its 17 questions one by one, and had 2 s: a server of a distant Redis never served.
/// Found by an attack from outside.
#[tokio::test]
async fn a_server_of_a_distant_redis_serves() {
    let redis = Redis::start(&[]);
    make_store(&redis);
    let proxy = Proxy::slow(Duration::from_millis(250), redis.port).await;
    proxy.open();
    let server = start_on_url(proxy.url()).await;
    serving(&server, true).await;
    server.client().acquire_lease(acquire_request("a", TTL)).await;
}

#[tokio::test]
async fn a_command_that_timed_out_while_redis_was_paused_keeps_no_lock() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    // The connection is made, and Redis knows the scripts.
    let lease = server.client().acquire_lease(acquire_request("warm-up", TTL)).await;
    server.client().release_lease(&lease).await;
    redis.pause();
    let request = acquire_request("a", TTL);
    let sent = Instant::now();
    let unknown = server.client().acquire(request).await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unavailable);
    assert!(sent.elapsed() < Duration::from_secs(10), "answered in time");
    // The command in Redis' buffer is carried out when it resumes.
    tokio::time::sleep(Duration::from_secs(1)).await;
    redis.resume();
    serving(&server, true).await;
    until(|| async { server.client().acquire(acquire_request("probe", TTL)).await.is_ok() }).await;
    until(|| async { server.client().holder("a").await.is_none() }).await;
    assert!(sent.elapsed() < TTL / 2, "its cleanup gave the lock back, and not its TTL: {:?}", sent.elapsed());
    let again = acquire_request("a", TTL);
    server.client().acquire_lease(again).await;
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

/// Who leads is not known then: an observer that goes on showing the last state would name a former leader.
#[tokio::test]
async fn observers_are_told_when_the_state_cannot_be_read_any_more() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    let observe = async || {
        let request = v1::ObserveRequest { lock_name: "a".into() };
        within(server.client().observe(request)).await.unwrap().into_inner()
    };
    let mut states = observe().await;
    let token = |state: v1::ObserveResponse| state.lock.unwrap().holders[0].fencing_token;
    assert_eq!(token(within(states.message()).await.unwrap().unwrap()), lease.fencing_token);
    redis.pause();
    let ended = within(async {
        loop {
            if let Err(ended) = states.message().await {
                break ended;
            }
        }
    });
    assert_eq!(ended.await.code(), Code::Unavailable);
    redis.resume();
    serving(&server, true).await;
    assert_eq!(token(within(observe().await.message()).await.unwrap().unwrap()), lease.fencing_token);
}

/// The servers that live have all that Redis forgets.
#[tokio::test]
async fn a_flush_loses_nothing_while_a_server_lives() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    let mut waiting = server.client();
    let waiter = tokio::spawn(async move { waiting.acquire_lease(waiting_request("a", TTL, LONG)).await });
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    redis.command(&["FLUSHALL"]);
    until(|| async { redis.command(&["EXISTS", "{fp}:node"]).text() == "1" }).await;
    let current = server.client().lock_info("a").await;
    assert_eq!((only(current.holders).unwrap().fencing_token, current.waiters), (lease.fencing_token, 1));
    until(|| async {
        let release = v1::ReleaseRequest { lock_name: "a".into(), lease_id: lease.lease_id.clone() };
        server.client().release(release).await.is_ok()
    })
    .await;
    assert!(within(waiter).await.unwrap().fencing_token > lease.fencing_token);
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

/// A Redis that takes no writes is as good as down, and whoever asks is told why. Leases stay valid by their own time.
async fn is_down_while(setting: &str, [bad, good]: [&str; 2], says: &str) {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]);
    let server = server_on(&redis).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    redis.command(&["CONFIG", "SET", setting, bad]);
    serving(&server, false).await;
    let told = |answer: Result<(), tonic::Status>| {
        let status = answer.expect_err("it is refused");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert!(status.message().contains(says), "{says:?} is not in {status}");
    };
    told(server.client().acquire(acquire_request("b", TTL)).await.map(drop));
    told(server.client().get(v1::GetRequest { lock_name: "a".into() }).await.map(drop));
    told(server.client().list(v1::ListRequest::default()).await.map(drop));
    let release = || v1::ReleaseRequest { lock_name: "a".into(), lease_id: lease.lease_id.clone() };
    told(server.client().release(release()).await.map(drop));
    redis.command(&["CONFIG", "SET", setting, good]);
    serving(&server, true).await;
    server.client().acquire_lease(acquire_request("c", TTL)).await;
    // By the server that lived: the call above, or this one.
    let end = server.client().release_lease(&lease).await;
    assert_eq!(end, LeaseEnd::Released);
}

#[tokio::test]
async fn a_redis_out_of_memory_is_down_until_it_has_room() {
    is_down_while("maxmemory", ["1", "0"], "Redis has reached its maxmemory").await;
}

#[tokio::test]
async fn a_redis_without_enough_replicas_is_down_until_it_has_them() {
    is_down_while("min-replicas-to-write", ["1", "0"], "too few replicas follow this Redis").await;
}

#[tokio::test]
async fn a_server_does_not_serve_on_a_redis_that_became_a_replica_until_it_is_promoted() {
    let (redis, other) = (Redis::start(&[]), Redis::start(&[]));
    let server = server_on(&redis).await;
    server.client().acquire_lease(acquire_request("a", TTL)).await;
    redis.command(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]);
    let request = acquire_request("b", TTL);
    let refused = server.client().acquire(request.clone()).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
    serving(&server, false).await;
    redis.command(&["REPLICAOF", "NO", "ONE"]);
    serving(&server, true).await;
    server.client().acquire_lease(v1::AcquireRequest { attempt: 2, ..request }).await;
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

/// It is the client's mistake, and not reported as damaged data.
#[tokio::test]
async fn an_invalid_page_token_is_refused() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let (beyond, last) = (format!("{PARTITIONS}.0"), format!("{}.0", PARTITIONS - 1));
    for page_token in ["ffffffffffffffff.0", &beyond, "0", "x.0", "0.x", "0.1"] {
        let request = v1::ListRequest { page_token: page_token.into(), ..v1::ListRequest::default() };
        assert_refused(server.client().list(request).await, Code::InvalidArgument, "INVALID_FIELD");
    }
    let request = v1::ListRequest { page_token: last, ..v1::ListRequest::default() };
    within(server.client().list(request)).await.unwrap();
}
