//! Hints that arrive late, twice, or without a waiter do no harm.

use crate::{
    redis_server::Redis,
    server_on,
    support::{Lock, acquire_request, assert_refused, read, until, waiting_request, within},
};
use fencepost::{domain::name::LockName, store::redis::keys};
use std::time::Duration;
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(30);

/// A message and a poll may report the same offer. The second report must not cut the lease short.
#[tokio::test]
async fn a_hint_after_the_grant_does_not_change_the_lease() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let first = server.client().acquire_lease(acquire_request("a", TTL)).await;
    let request = waiting_request("a", TTL, TTL);
    let (mut waiting, sent) = (server.client(), request.clone());
    let waiter = tokio::spawn(async move { waiting.acquire_lease(sent).await });
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    server.client().release_lease(&first).await;
    let lease = waiter.await.unwrap();
    let channel = redis.command(&["PUBSUB", "CHANNELS", "fp:c:*"]).text();
    let replica = channel.trim().strip_prefix("fp:c:").unwrap().to_owned();
    let id = request.request_id.replace('-', "");
    let before = redis.calls("evalsha");
    let script = "local function raw(id) return (id:gsub('%x%x', function(byte) return string.char(tonumber(byte, 16)) end)) end \
                  return redis.call('PUBLISH', KEYS[1], cmsgpack.pack({ 'look', raw(ARGV[1]), raw(ARGV[2]), '1' }, 'a'))";
    assert_eq!(redis.command(&["EVAL", script, "1", channel.trim(), &replica, &id]).text(), "1");
    until(|| async { redis.calls("evalsha") > before }).await;
    let current = server.client().holder("a").await.unwrap();
    assert_eq!(current.fencing_token, lease.fencing_token);
    assert!(read(current.expires_in) > TTL / 2, "{:?} left", current.expires_in);
}

/// A claim that is refused because its connection belongs to an earlier incarnation of Redis. The queue position is
/// kept only for the retry.
#[tokio::test]
async fn the_queue_position_of_a_refused_claim_is_kept_only_for_the_grace_period() {
    let redis = Redis::start(&[]);
    let old = server_on(&redis).await;
    let held = old.client().acquire_lease(acquire_request("a", TTL)).await;
    let mut waiting = old.client();
    let waiter = tokio::spawn(async move { waiting.acquire(waiting_request("a", TTL, TTL)).await });
    until(|| async { old.client().lock_info("a").await.waiters == 1 }).await;
    redis.command(&["DEBUG", "CHANGE-REPL-ID"]);
    // A server that knows the new incarnation draws a token, so the bucket leaves the old one.
    let newest = server_on(&redis).await;
    let bucket = |name: &str| keys::bucket(&LockName::new(name.to_owned()).unwrap());
    let neighbour = (0..).map(|number| format!("n/{number}")).find(|name| bucket(name) == bucket("a")).unwrap();
    newest.client().acquire_lease(acquire_request(&neighbour, TTL)).await;
    newest.client().release_lease(&held).await;
    assert_refused(within(waiter).await.unwrap(), tonic::Code::Unavailable, "STORE_UNAVAILABLE");
    let refused = Instant::now();
    until(|| async { newest.client().lock_info("a").await.waiters == 0 }).await;
    assert!(refused.elapsed() < TTL / 2, "only after the server is gone: {:?}", refused.elapsed());
}
