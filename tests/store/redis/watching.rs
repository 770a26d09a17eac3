//! Lost events: watchers are notified of the gap.

use crate::{
    redis_server::Redis,
    server_on,
    support::{Lock, Server, acquire_request, until, within},
};
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

/// What the other server leads, this one hears of over the connection that breaks.
#[tokio::test]
async fn a_broken_connection_is_a_gap() {
    let redis = Redis::start(&[]);
    let (server, other) = (server_on(&redis).await, server_on(&redis).await);
    let mut events = watch(&server).await;
    let ended = redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).text();
    assert_eq!(ended.trim(), "2");
    assert_gap(&mut events).await;
    until(|| async { redis.command(&["PUBSUB", "CHANNELS", "{fp}:to:*"]).text().matches("{fp}:to:").count() == 2 })
        .await;
    // Locks of either server. The new connections may report another gap.
    for number in 0..20 {
        let name = format!("a/{number}");
        let lease = other.client().acquire_lease(acquire_request(&name, TTL)).await;
        let mut event = next(&mut events).await;
        while event.kind() == Kind::Missed {
            event = next(&mut events).await;
        }
        assert_eq!((event.lock_name, event.fencing_token), (name, lease.fencing_token));
    }
}

#[tokio::test]
async fn watches_start_without_a_gap() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let mut all = join_all((0..50).map(|_| watch(&server))).await;
    let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
    for events in &mut all {
        assert_eq!(next(events).await.fencing_token, lease.fencing_token);
    }
}
