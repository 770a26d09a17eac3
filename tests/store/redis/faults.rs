//! Redis goes away, stands still, forgets, fills up.

use crate::{
    asks::Asks,
    places::Hints,
    redis_server::Redis,
    server_on, serving, start_on,
    stream::{Stream, attachment},
    support::{Lock, assert_refused, until, waiting_wish, wish, within},
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
    self, LeaseEnd, acquire_response::Outcome as Acquired, keep_alive_response::Message as Hear,
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
async fn it_starts_without_redis_says_so_and_serves_when_redis_comes() {
    let mut redis = Redis::start(&[]);
    redis.kill();
    let server = start_on(&redis).await;
    serving(&server, false).await;
    let refused = server.client().acquire(wish("a", TTL)).await;
    let status = assert_refused(refused, Code::Unavailable, "STORE_UNAVAILABLE");
    assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());
    redis.restart(false);
    serving(&server, true).await;
    server.client().take(wish("a", TTL)).await;
}

#[tokio::test]
async fn while_redis_stands_still_nothing_is_granted_and_what_was_given_up_never_is() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    // The connection is made, and its scripts are known.
    let lease = server.client().take(wish("warm", TTL)).await;
    server.client().give_back(&lease).await;
    redis.pause();
    let request = wish("a", TTL);
    let asked = Instant::now();
    let unknown = server.client().acquire(request.clone()).await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unavailable);
    assert!(asked.elapsed() < Duration::from_secs(10), "answered in time");
    // Longer than the command window: what is in Redis' buffer is stale when it goes on.
    tokio::time::sleep(Duration::from_secs(1)).await;
    redis.resume();
    serving(&server, true).await;
    until(|| async { server.client().acquire(wish("probe", TTL)).await.is_ok() }).await;
    assert_eq!(server.client().holder("a").await, None, "the command that nobody waits for did nothing");
    server.client().take(v1::AcquireRequest { attempt: 2, ..request }).await;
}

#[tokio::test]
async fn holders_are_at_risk_while_redis_is_away_and_lose_nothing_if_it_comes_back_in_time() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let ttl = Duration::from_secs(9);
    let lease = server.client().take(wish("a", ttl)).await;
    let mut stream = Stream::open(server.client()).await;
    stream.attach(vec![attachment(1, &lease)]).await;
    assert!(matches!(stream.next_but_beats(true).await, Hear::Attached(_)));
    redis.pause();
    let Hear::AtRisk(told) = stream.next_but_beats(true).await else { panic!("at risk is told") };
    assert_eq!(told.handles, [1]);
    redis.resume();
    within(async { while !matches!(stream.next_but_beats(true).await, Hear::Renewed(_)) {} }).await;
    let current = server.client().holder("a").await.unwrap();
    assert_eq!(current.fencing_token, lease.fencing_token);
}

#[tokio::test]
async fn a_redis_that_was_flushed_serves_on_with_higher_tokens_and_waiters_are_sent_away() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let lease = server.client().take(wish("a", TTL)).await;
    let mut waiting = server.client();
    let waiter = tokio::spawn(async move { waiting.acquire(waiting_wish("a", TTL, LONG)).await });
    until(|| async { server.client().look("a").await.waiters == 1 }).await;
    redis.command(&["FLUSHALL"]);
    let sent_away = within(waiter).await.unwrap();
    assert_refused(sent_away, Code::Unavailable, "PLACE_LOST");
    let next = server.client().take(wish("a", TTL)).await;
    assert!(next.fencing_token > lease.fencing_token);
    assert_eq!(server.client().give_back(&lease).await, LeaseEnd::Superseded);
}

#[tokio::test]
async fn scripts_and_connections_that_were_thrown_away_are_made_anew() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    for round in 0..20 {
        let lease = server.client().take(wish("a", TTL)).await;
        redis.command(&["SCRIPT", "FLUSH"]);
        server.client().give_back(&lease).await;
        if round % 5 == 0 {
            redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        }
    }
    redis.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    until(|| async { server.client().acquire(wish("b", TTL)).await.is_ok() }).await;
}

#[tokio::test]
async fn a_redis_out_of_memory_refuses_grants_and_still_takes_leases_back() {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]);
    let server = server_on(&redis).await;
    let lease = server.client().take(wish("a", TTL)).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_refused(server.client().acquire(wish("b", TTL)).await, Code::Unavailable, "STORE_UNAVAILABLE");
    assert_eq!(server.client().give_back(&lease).await, LeaseEnd::Released);
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    server.client().take(wish("b", TTL)).await;
}

/// Also after the server has looked at Redis again, which it does every ten seconds.
#[tokio::test]
async fn a_redis_that_stays_out_of_memory_keeps_the_leases_that_there_are() {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]);
    let server = server_on(&redis).await;
    let lease = server.client().take(wish("a", TTL)).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let end = Instant::now() + Duration::from_secs(14);
    while Instant::now() < end {
        let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
        let renewed = within(server.client().renew(v1::RenewRequest { lock_name, lease_id, ttl: None })).await;
        assert_eq!(renewed.unwrap().into_inner().outcome(), v1::renew_response::Outcome::Renewed);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(server.client().give_back(&lease).await, LeaseEnd::Released);
}

/// The same of a Redis that refuses to write.
#[tokio::test]
async fn a_redis_that_lacks_replicas_still_tells_who_holds_a_lock() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let lease = server.client().take(wish("a", TTL)).await;
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let end = Instant::now() + Duration::from_secs(14);
    while Instant::now() < end {
        assert_eq!(server.client().holder("a").await.unwrap().fencing_token, lease.fencing_token);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_refused(server.client().acquire(wish("b", TTL)).await, Code::Unavailable, "STORE_UNAVAILABLE");
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error_and_leaves_no_half_done_grant() {
    use fencepost::{domain::name::LockName, store::redis::keys};
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    for letter in ["l", "w", "d"] {
        let name = LockName::new(format!("planted {letter}")).unwrap();
        let key = format!("{}{letter}:{name}", keys::base(keys::bucket(&name)));
        redis.command(&["SET", &key, "not ours"]);
        let request = wish(name.as_str(), TTL);
        let refused = server.client().acquire(request.clone()).await;
        // The queue's keys matter to those who wait only.
        if refused.as_ref().is_ok() {
            assert!(["w", "d"].contains(&letter), "{letter}");
            let waiting = server.client().acquire(waiting_wish(name.as_str(), TTL, LONG)).await;
            assert_refused(waiting, Code::DataLoss, "STORE_CORRUPT");
        } else {
            assert_refused(refused, Code::DataLoss, "STORE_CORRUPT");
            redis.command(&["DEL", &key]);
            assert_eq!(server.client().holder(name.as_str()).await, None);
            server.client().take(v1::AcquireRequest { attempt: 2, ..request }).await;
        }
    }
}

/// Where ends of requests are put aside that are not the newest.
#[tokio::test]
async fn a_memory_of_another_type_is_an_error_and_leaves_no_half_done_release() {
    use fencepost::{domain::name::LockName, store::redis::keys};
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let back =
        |lease: &v1::Lease| v1::ReleaseRequest { lock_name: lease.lock_name.clone(), lease_id: lease.lease_id.clone() };
    for letter in ["e", "o"] {
        let name = LockName::new(format!("planted {letter}")).unwrap();
        let key = format!("{}{letter}:{name}", keys::base(keys::bucket(&name)));
        // The newest end needs neither key; a second one needs the first of them, and a wait looks at both.
        let lease = server.client().take(wish(name.as_str(), TTL)).await;
        server.client().give_back(&lease).await;
        let lease = server.client().take(wish(name.as_str(), TTL)).await;
        redis.command(&["SET", &key, "not ours"]);
        if letter == "e" {
            assert_refused(server.client().release(back(&lease)).await, Code::DataLoss, "STORE_CORRUPT");
        }
        let waiting = server.client().acquire(waiting_wish(name.as_str(), TTL, LONG)).await;
        assert_refused(waiting, Code::DataLoss, "STORE_CORRUPT");
        let held = server.client().holder(name.as_str()).await.unwrap();
        assert_eq!(held.fencing_token, lease.fencing_token);
        redis.command(&["DEL", &key]);
        assert_eq!(server.client().give_back(&lease).await, v1::LeaseEnd::Released);
    }
}

#[tokio::test]
async fn a_redis_that_became_read_only_is_left_for_one_that_is_not() {
    let (redis, other) = (Redis::start(&[]), Redis::start(&[]));
    let server = server_on(&redis).await;
    server.client().take(wish("a", TTL)).await;
    redis.command(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]);
    let refused = server.client().acquire(wish("b", TTL)).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
    serving(&server, false).await;
    redis.command(&["REPLICAOF", "NO", "ONE"]);
    serving(&server, true).await;
    server.client().take(wish("b", TTL)).await;
}

#[tokio::test]
async fn waiters_wait_on_through_a_restart_that_keeps_the_data() {
    let mut redis = Redis::start(&["--appendonly", "yes"]);
    let server = server_on(&redis).await;
    let lease = server.client().take(wish("a", TTL)).await;
    let mut waiting = server.client();
    let waiter = tokio::spawn(async move { waiting.ask(waiting_wish("a", TTL, LONG)).await });
    until(|| async { server.client().look("a").await.waiters == 1 }).await;
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

/// What a client asked for is not polled while that client stalls, its stream being full. It keeps nobody else from
/// Redis, neither while it looks at a life of Redis that is not known yet, nor in a renewal. Found by the torture: a
/// server did not serve again after Redis was restarted.
#[tokio::test]
async fn what_is_not_polled_keeps_nobody_from_redis() {
    let redis = Redis::start(&["--maxmemory-policy", "allkeys-lru"]);
    let (url, hints) = (RedisUrl::parse(&redis.url()).unwrap(), Arc::new(Hints::default()));
    let store = Arc::new(RedisStore::new(&url, &Limits::default(), hints));
    let running = store.clone();
    let running = tokio::spawn(async move { running.maintain().await });
    let name = LockName::new("a".into()).unwrap();
    // Refused at once while there is no connection, and for a moment after each look that failed; under way between.
    let mut stalled = Vec::new();
    until(|| {
        let mut asked = Box::pin(store.view(&name));
        let is_under_way = asked.as_mut().now_or_never().is_none();
        stalled.extend(is_under_way.then_some(asked));
        std::future::ready(is_under_way)
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
    running.abort();
}

/// A place that no scan of Redis can be at: the client's mistake, and no damage to the data.
#[tokio::test]
async fn a_page_token_that_no_page_gave_is_refused() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    for page_token in ["ffffffffffffffff.0", "20000000000000.0", "0", "x.0", "0.x"] {
        let request = v1::ListRequest { page_token: page_token.into(), ..v1::ListRequest::default() };
        assert_refused(server.client().list(request).await, Code::InvalidArgument, "INVALID_FIELD");
    }
    let request = v1::ListRequest { page_token: "1fffffffffffff.0".into(), ..v1::ListRequest::default() };
    within(server.client().list(request)).await.unwrap();
}
