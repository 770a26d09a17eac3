//! Classic clients beside servers whose store keeps partitions on one Redis: real Redis processes, real sockets. They
//! acquire with `SET lock:NAME value NX PX ttl`, and release with a script that deletes the key if the value is still
//! theirs.
#![allow(clippy::unwrap_used, reason = "test code")]

mod changes;
mod leases;
mod prefix;
#[path = "../../support/redis.rs"]
mod redis_server;
#[path = "../../support/server.rs"]
mod support;
mod waiting;

use fencepost::testing::config::StoreUrl;
use fencepost_proto::v1;
use redis_server::{Answer, Redis};
use std::time::Duration;
use support::{Server, serving, span, until, within};

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(50);
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

async fn start_sharing(redis: &Redis, prefix: &str) -> Server {
    start_sharing_at(redis.url(), prefix).await
}

async fn start_sharing_at(url: String, prefix: &str) -> Server {
    let prefix = prefix.to_owned();
    Server::start_with(|config| (config.store, config.classic_prefix) = (StoreUrl::Redis(vec![url]), prefix)).await
}

/// A server on this Redis that shares locks and is serving.
async fn sharing(redis: &Redis) -> Server {
    let server = start_sharing(redis, "lock:").await;
    serving(&server, true).await;
    server
}

/// Acquires as a classic client.
fn classic_acquire(redis: &Redis, value: &str, ttl_ms: u64) -> bool {
    redis.command(&["SET", "lock:a", value, "NX", "PX", &ttl_ms.to_string()]) != Answer::Nil
}

/// Releases as a classic client.
fn classic_release(redis: &Redis, value: &str) {
    assert_eq!(redis.command(&["EVAL", RELEASE, "1", "lock:a", value]).text(), "1");
}

fn value(redis: &Redis) -> Option<String> {
    let answer = redis.command(&["GET", "lock:a"]);
    (answer != Answer::Nil).then(|| answer.text())
}

fn pttl(redis: &Redis) -> Duration {
    Duration::from_millis(redis.command(&["PTTL", "lock:a"]).text().parse().unwrap())
}

/// The classic key is gone a moment after the answer: it is deleted when Redis has what the answer rests on.
async fn until_free(redis: &Redis) {
    until(|| async { value(redis).is_none() }).await;
}

async fn renew(server: &Server, lease: &v1::Lease, ttl: Option<Duration>) -> v1::RenewResponse {
    let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
    let request = v1::RenewRequest { lock_name, lease_id, ttl: ttl.and_then(span) };
    within(server.client().renew(request)).await.unwrap().into_inner()
}
