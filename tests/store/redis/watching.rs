//! Lost events: watchers are notified of the gap.

use crate::{
    redis_server::Redis,
    server_on,
    support::{Lock, Server, acquire_request, until, within},
};
use fencepost::{domain::name::LockName, store::redis::keys};
use fencepost_proto::v1::{self, WatchResponse, watch_response::Kind};
use futures_util::future::join_all;
use std::time::Duration;
use tonic::Streaming;

const TTL: Duration = Duration::from_secs(30);

async fn watch(server: &Server) -> Streaming<WatchResponse> {
    let mut events = within(server.client().watch(v1::WatchRequest::default())).await.unwrap().into_inner();
    assert_eq!(next(&mut events).await.kind(), Kind::Started);
    events
}

async fn next(events: &mut Streaming<WatchResponse>) -> WatchResponse {
    within(events.message()).await.unwrap().expect("the watch continues")
}

/// Checks that the next event is a gap of unknown size.
async fn assert_gap(events: &mut Streaming<WatchResponse>) {
    let gap = next(events).await;
    assert_eq!((gap.kind(), gap.missed), (Kind::Missed, 0), "{gap:?}");
}

/// Checks that the watch receives new events.
async fn assert_continues(server: &Server, events: &mut Streaming<WatchResponse>) {
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    let granted = next(events).await;
    assert_eq!((granted.kind(), granted.fencing_token), (Kind::Granted, lease.fencing_token), "{granted:?}");
}

#[tokio::test]
async fn a_broken_connection_is_a_gap() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let mut events = watch(&server).await;
    let ended = redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).text();
    assert_eq!(ended.trim(), "1");
    assert_gap(&mut events).await;
    until(|| async { redis.command(&["PUBSUB", "CHANNELS", "fp:c:*"]).text().contains("fp:c:") }).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    // The new connection may report another gap.
    let mut event = next(&mut events).await;
    if event.kind() == Kind::Missed {
        event = next(&mut events).await;
    }
    assert_eq!(event.fencing_token, lease.fencing_token, "{event:?}");
}

#[tokio::test]
async fn events_that_redis_did_not_send_are_a_gap() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let mut before = watch(&server).await;
    let bucket = keys::bucket(&LockName::new("a".into()).unwrap());
    redis.command(&["HDEL", &keys::of_bucket(bucket), "watched"]);
    // The server notices when it subscribes again, every ten seconds.
    let mut after = watch(&server).await;
    assert_gap(&mut before).await;
    assert_gap(&mut after).await;
    assert_continues(&server, &mut before).await;
}

#[tokio::test]
async fn watches_start_without_a_gap() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let before = redis.calls("evalsha");
    let mut all = join_all((0..50).map(|_| watch(&server))).await;
    let scripts = redis.calls("evalsha") - before;
    assert!(scripts < 2 * u64::from(keys::BUCKETS) / 32, "{scripts} scripts for 50 watches");
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    for events in &mut all {
        assert_eq!(next(events).await.fencing_token, lease.fencing_token);
    }
}
