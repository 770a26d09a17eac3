//! The rights that the Redis user needs, and the errors without them.

use crate::{
    redis_server::Redis,
    server_on, serving, start_on_url,
    stream::{Stream, attachment},
    support::{Lock, Server, acquire_request, assert_refused, until, waiting_request, within},
};
use fencepost_proto::v1::{self, LeaseEnd, keep_alive_response::Message as ServerMessage, watch_response::Kind};
use std::time::Duration;
use tonic::Code;

const TTL: Duration = Duration::from_secs(30);
/// As in docs/operating.md and in error messages.
const ENOUGH: &str = "+@scripting +@pubsub +@read +@write +@connection +info +time ~fp:* &fp:c:*";

/// A server whose Redis user has these rights.
async fn server_with(redis: &Redis, rights: &str) -> Server {
    let user: Vec<&str> = ["ACL", "SETUSER", "fp", "reset", "on", ">pw"].into_iter().chain(rights.split(' ')).collect();
    assert_eq!(redis.command(&user).text().trim(), "OK");
    let server = start_on_url(redis.url().replace("redis://", "redis://fp:pw@")).await;
    serving(&server, true).await;
    server
}

#[tokio::test]
async fn servers_work_with_the_documented_rights() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_with(&redis, ENOUGH).await, server_with(&redis, ENOUGH).await);
    let mut events = within(one.client().watch(v1::WatchRequest::default())).await.unwrap().into_inner();
    let held = one.client().acquire_lease(acquire_request("a", TTL)).await;
    let mut waiting = two.client();
    let waiter = tokio::spawn(async move { waiting.acquire_lease(waiting_request("a", TTL, TTL)).await });
    until(|| async { one.client().lock_info("a").await.waiters == 1 }).await;
    assert_eq!(one.client().list(v1::ListRequest::default()).await.unwrap().into_inner().locks.len(), 1);
    assert_eq!(one.client().release_lease(&held).await, LeaseEnd::Released);
    let lease = within(waiter).await.unwrap();
    let force =
        v1::ForceReleaseRequest { lock_name: "a".into(), expected_token: lease.fencing_token, reason: "test".into() };
    one.admin().force_release(force).await.unwrap();
    let expected = [Kind::Started, Kind::Granted, Kind::Released, Kind::Granted, Kind::Revoked];
    for kind in expected {
        assert_eq!(within(events.message()).await.unwrap().unwrap().kind(), kind);
    }
}

/// A release without the right to publish a hint to another server. The next poll serves the waiter there.
#[tokio::test]
async fn waiters_are_served_without_the_right_to_publish() {
    let redis = Redis::start(&[]);
    let (publisher, other) = (server_with(&redis, ENOUGH.trim_end_matches(" &fp:c:*")).await, server_on(&redis).await);
    let held = publisher.client().acquire_lease(acquire_request("a", TTL)).await;
    let mut waiting = other.client();
    let waiter = tokio::spawn(async move { waiting.acquire_lease(waiting_request("a", TTL, TTL)).await });
    until(|| async { other.client().lock_info("a").await.waiters == 1 }).await;
    assert_eq!(publisher.client().release_lease(&held).await, LeaseEnd::Released);
    assert!(within(waiter).await.unwrap().fencing_token > held.fencing_token);
}

/// A script that fails halfway for lack of a right is not reported as damaged data.
#[tokio::test]
async fn the_error_for_a_missing_right_names_the_remedy() {
    let redis = Redis::start(&[]);
    let server = server_with(&redis, &format!("{ENOUGH} -set")).await;
    let status =
        assert_refused(server.client().acquire(acquire_request("a", TTL)).await, Code::Unavailable, "OUTCOME_UNKNOWN");
    assert!(status.message().contains("ACL SETUSER") && status.message().contains("~fp:*"), "{status}");
}

/// A message notifies servers of the end of a lease. If it is lost, the next beats do, however long the TTL.
#[tokio::test]
async fn a_stream_learns_of_the_end_of_a_lease_if_its_message_was_lost() {
    let redis = Redis::start(&[]);
    let (subscriber, other) = (server_with(&redis, ENOUGH).await, server_on(&redis).await);
    let lease = subscriber.client().acquire_lease(acquire_request("a", TTL * 120)).await;
    let mut stream = Stream::open(subscriber.client()).await;
    stream.attach(vec![attachment(1, &lease)]).await;
    assert!(matches!(stream.next_but_beats(true).await, ServerMessage::Attached(_)));
    // Redis closes the connection of the subscription.
    redis.command(&["ACL", "SETUSER", "fp", "resetchannels"]);
    let force =
        v1::ForceReleaseRequest { lock_name: "a".into(), expected_token: lease.fencing_token, reason: "test".into() };
    other.admin().force_release(force).await.unwrap();
    redis.command(&["ACL", "SETUSER", "fp", "&fp:c:*"]);
    let ServerMessage::Lost(lost) = within(stream.next_but_beats(true)).await else { panic!("the lease is not lost") };
    assert_eq!(lost.handle, 1);
}

/// A server without the right to subscribe retries. The retries lose no events, so watchers see no gap.
#[tokio::test]
async fn failed_subscriptions_are_no_gap_for_watchers() {
    let redis = Redis::start(&[]);
    let publisher = server_with(&redis, ENOUGH.trim_end_matches(" &fp:c:*")).await;
    let mut events = within(publisher.client().watch(v1::WatchRequest::default())).await.unwrap().into_inner();
    let refused = || async { redis.info("errorstats", "errorstat_NOPERM").trim_start_matches("count=").parse::<u64>() };
    let before = refused().await.unwrap();
    until(|| async { refused().await.unwrap() >= before + 4 }).await;
    publisher.client().acquire_lease(acquire_request("a", TTL)).await;
    for kind in [Kind::Started, Kind::Granted] {
        assert_eq!(within(events.message()).await.unwrap().unwrap().kind(), kind);
    }
}
