//! All servers of a Redis go by one prefix.

use super::{TTL, serving, sharing, start_sharing, start_sharing_at, value};
use crate::{
    redis_server::Redis,
    support::{Lock, Server, acquire_request, assert_refused, until},
};
use tonic::Code;

async fn refusal(server: &Server) -> String {
    let refused = server.client().acquire(acquire_request("a", TTL)).await;
    assert_refused(refused, Code::Unavailable, "STORE_UNAVAILABLE").message().to_owned()
}

#[tokio::test]
async fn a_server_with_another_classic_prefix_refuses_the_redis() {
    let redis = Redis::start(&[]);
    let server = sharing(&redis).await;
    for (prefix, other) in [("", start_sharing(&redis, "").await), ("other:", start_sharing(&redis, "other:").await)] {
        until(|| async {
            let message = refusal(&other).await;
            message.contains("the classic prefix \"lock:\"") && message.contains("DEL {fp}:classic")
        })
        .await;
        serving(&other, false).await;
        assert_eq!(redis.command(&["EXISTS", "lock:a", "other:a"]).text(), "0", "{prefix:?}");
    }
    server.client().acquire_lease(acquire_request("a", TTL)).await;
    // The prefix can be changed while no server runs.
    drop(server);
    redis.command(&["DEL", "{fp}:classic"]);
    let server = start_sharing(&redis, "").await;
    serving(&server, true).await;
    server.client().acquire_lease(acquire_request("b", TTL)).await;
    assert_eq!(redis.command(&["EXISTS", "lock:b"]).text(), "0");
    let late = start_sharing(&redis, "lock:").await;
    until(|| async { refusal(&late).await.contains("the classic prefix \"\"") }).await;
    server.client().acquire_lease(acquire_request("c", TTL)).await;
}

#[tokio::test]
async fn a_redis_that_forgot_all_is_told_the_prefix_again() {
    let redis = Redis::start(&[]);
    let server = sharing(&redis).await;
    redis.command(&["FLUSHALL"]);
    until(|| async { redis.command(&["GET", "{fp}:classic"]).text() == "lock:" }).await;
    let other = start_sharing(&redis, "other:").await;
    until(|| async { refusal(&other).await.contains("the classic prefix \"lock:\"") }).await;
    serving(&server, true).await;
}

/// The prefix is not the one that the user of Redis has rights for: a typing error, say.
#[tokio::test]
async fn a_prefix_that_redis_does_not_permit_is_refused_before_anything_is_done() {
    let redis = Redis::start(&[]);
    let rights = "reset on >pw +@scripting +@pubsub +@read +@write +@connection +info +time ~{fp}:* &fp:q:* ~lock:*";
    let user: Vec<&str> = ["ACL", "SETUSER", "fp"].into_iter().chain(rights.split(' ')).collect();
    assert_eq!(redis.command(&user).text().trim(), "OK");
    let start = async |prefix: &str| start_sharing_at(redis.url().replace("redis://", "redis://fp:pw@"), prefix).await;
    let wrong = start("locks:").await;
    until(|| async { refusal(&wrong).await.contains("the classic prefix \"locks:\"") }).await;
    let message = refusal(&wrong).await;
    for part in ["nothing was done", "correct --classic-prefix", "~locks:*"] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    serving(&wrong, false).await;
    assert_eq!(redis.command(&["EXISTS", "{fp}:classic"]).text(), "0", "the wrong prefix is not fixed for others");
    let right = start("lock:").await;
    serving(&right, true).await;
    let lease = right.client().acquire_lease(acquire_request("a", TTL)).await;
    assert_eq!(value(&redis), Some(lease.grant_id));
}
