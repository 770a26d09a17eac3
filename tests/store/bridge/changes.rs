//! Changes of the leader.

use super::{LONG, TTL, classic_acquire, classic_release, renew, sharing, until_free, value};
use crate::{
    redis_server::Redis,
    support::{Lock, acquire_request, until, waiting_request, within},
};
use fencepost_proto::v1::{LeaseEnd, renew_response};

#[tokio::test]
async fn a_lease_and_its_key_outlive_the_server_that_granted_it() {
    let redis = Redis::start(&[]);
    let one = sharing(&redis).await;
    let lease = one.client().acquire_lease(acquire_request("a", TTL)).await;
    let two = sharing(&redis).await;
    // It ends without handing over.
    drop(one);
    until(|| async { two.client().acquire(acquire_request("b", TTL)).await.is_ok() }).await;
    until(|| async { two.client().acquire(acquire_request("a", TTL)).await.is_ok() }).await;
    assert_eq!(value(&redis), Some(lease.grant_id.clone()));
    assert!(!classic_acquire(&redis, "other", 1_000));
    redis.command(&["DEL", "lock:a"]);
    assert_eq!(renew(&two, &lease, None).await.outcome(), renew_response::Outcome::Renewed);
    assert_eq!(value(&redis), Some(lease.grant_id.clone()), "the renewal restores it");
    assert_eq!(two.client().release_lease(&lease).await, LeaseEnd::Released);
    until_free(&redis).await;
}

/// A leader that ended may have left a key of a lease that had ended.
#[tokio::test]
async fn the_next_leader_deletes_the_keys_of_leases_that_ended() {
    let redis = Redis::start(&[]);
    let one = sharing(&redis).await;
    let lease = one.client().acquire_lease(acquire_request("a", TTL)).await;
    let copy = redis.command(&["KEYS", "{fp}:*:k:lock:a"]).text();
    redis.command(&["COPY", &copy, "saved"]);
    assert_eq!(one.client().release_lease(&lease).await, LeaseEnd::Released);
    until_free(&redis).await;
    let two = sharing(&redis).await;
    drop(one);
    // As if it had ended before the keys were deleted.
    redis.command(&["COPY", "saved", &copy]);
    redis.command(&["SET", "lock:a", &lease.grant_id, "PX", "60000"]);
    until(|| async { two.client().acquire(acquire_request("b", TTL)).await.is_ok() }).await;
    until_free(&redis).await;
}

#[tokio::test]
async fn who_waits_for_a_classic_client_is_served_by_the_next_leader() {
    let redis = Redis::start(&[]);
    let one = sharing(&redis).await;
    let two = sharing(&redis).await;
    assert!(classic_acquire(&redis, "mine", 60_000));
    let mut waiting = two.client();
    let waiter = tokio::spawn(async move { waiting.acquire_lease(waiting_request("a", TTL, LONG)).await });
    until(|| async { two.client().lock_info("a").await.waiters == 1 }).await;
    drop(one);
    until(|| async {
        two.client().acquire(acquire_request("b", TTL)).await.is_ok()
            && two.client().acquire(acquire_request("a", TTL)).await.is_ok()
    })
    .await;
    assert_eq!(value(&redis).as_deref(), Some("mine"), "it is not granted beside a classic client");
    classic_release(&redis, "mine");
    let lease = within(waiter).await.unwrap();
    assert_eq!(value(&redis), Some(lease.grant_id));
}
