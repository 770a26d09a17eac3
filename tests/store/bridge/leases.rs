//! A lease and the classic key say the same.

use super::{TTL, classic_acquire, pttl, renew, serving, sharing, start_sharing, until_free, value};
use crate::{
    redis_server::Redis,
    support::{Lock, acquire_request, only, until, within},
};
use fencepost_proto::v1::{self, LeaseEnd, acquire_response::Outcome, renew_response, watch_response::Kind};
use std::time::Duration;

/// By how much the key outlives the lease.
const MORE: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_lease_holds_the_classic_lock_until_it_ends() {
    let redis = Redis::start(&[]);
    let server = sharing(&redis).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    assert_eq!(value(&redis), Some(lease.grant_id.clone()), "the value is the grant id");
    assert!(!classic_acquire(&redis, "other", 1_000));
    let left = pttl(&redis);
    assert!(left > TTL / 2 && left <= TTL + MORE, "{left:?}");
    assert_eq!(renew(&server, &lease, Some(TTL * 2)).await.outcome(), renew_response::Outcome::Renewed);
    assert!(pttl(&redis) > TTL + MORE, "the renewal extends the classic lock");
    assert_eq!(server.client().release_lease(&lease).await, LeaseEnd::Released);
    // A release deletes the classic key.
    until_free(&redis).await;
    assert_eq!(redis.command(&["KEYS", "{fp}:*:k:*"]).text(), "", "nor is its copy there");

    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    assert_eq!(value(&redis), Some(lease.grant_id));
    let force = v1::ForceReleaseRequest {
        lock_name: "a".into(),
        expected_token: lease.fencing_token,
        reason: "because".into(),
    };
    within(server.admin().force_release(force)).await.unwrap();
    // So does a revocation.
    until_free(&redis).await;

    server.client().acquire_lease(acquire_request("a", Duration::from_millis(100))).await;
    until(|| async { classic_acquire(&redis, "other", 1_000) }).await;
}

#[tokio::test]
async fn an_expired_lease_leaves_no_key_of_a_longer_ttl() {
    let redis = Redis::start(&[]);
    let server = sharing(&redis).await;
    let ttl = Duration::from_secs(1);
    let lease = server.client().acquire_lease(acquire_request("a", ttl)).await;
    // As by a step of a renewal that came too late for its turn.
    redis.command(&["PEXPIRE", "lock:a", "60000"]);
    assert_eq!(value(&redis), Some(lease.grant_id));
    until_free(&redis).await;
}

/// Redisson's locks are hashes.
#[tokio::test]
async fn a_classic_key_of_any_type_holds_the_lock() {
    let redis = Redis::start(&[]);
    let server = sharing(&redis).await;
    redis.command(&["HSET", "lock:a", "client:1", "1"]);
    let refused = server.client().acquire_response(acquire_request("a", TTL)).await;
    let holder = only(refused.holders.clone()).unwrap().holder;
    assert_eq!((refused.outcome(), holder.as_str()), (Outcome::Contended, "classic client"));
    redis.command(&["DEL", "lock:a"]);
    server.client().acquire_lease(acquire_request("a", TTL)).await;
}

#[tokio::test]
async fn a_renewal_restores_a_missing_classic_key_and_a_replaced_one_ends_the_lease() {
    let redis = Redis::start(&[]);
    let server = sharing(&redis).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    redis.command(&["DEL", "lock:a"]);
    assert_eq!(renew(&server, &lease, None).await.outcome(), renew_response::Outcome::Renewed);
    assert_eq!(value(&redis), Some(lease.grant_id.clone()));
    redis.command(&["DEL", "lock:a"]);
    assert!(classic_acquire(&redis, "thief", 60_000));
    let mut events = within(server.client().watch(v1::WatchRequest::default())).await.unwrap().into_inner();
    assert_eq!(within(events.message()).await.unwrap().unwrap().kind(), Kind::Started);
    let lost = renew(&server, &lease, None).await;
    assert_eq!((lost.outcome(), lost.end()), (renew_response::Outcome::Lost, LeaseEnd::Revoked));
    let event = within(events.message()).await.unwrap().unwrap();
    assert_eq!((event.kind(), event.reason.as_str()), (Kind::Revoked, "a classic client has lock:a"));
    assert_eq!(server.client().release_lease(&lease).await, LeaseEnd::Revoked);
    assert_eq!(server.client().holder("a").await.unwrap().holder, "classic client");
    assert_eq!(value(&redis).as_deref(), Some("thief"), "the server does not delete another client's key");
}

/// One before the grant, which sets the key and its copy, and one after the release, which deletes them.
#[tokio::test]
async fn a_pair_costs_two_steps_at_the_classic_key_and_none_without_a_prefix() {
    let (redis, other) = (Redis::start(&[]), Redis::start(&[]));
    let (server, without) = (sharing(&redis).await, start_sharing(&other, "").await);
    serving(&without, true).await;
    for (redis, server, steps) in [(&redis, server, (2, 1)), (&other, without, (0, 0))] {
        let calls = || (redis.calls("set"), redis.calls("del"));
        let before = calls();
        let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
        server.client().release_lease(&lease).await;
        until_free(redis).await;
        // What the server does without commands is none of these.
        let after = calls();
        assert_eq!((after.0 - before.0, after.1 - before.1), steps);
    }
}
