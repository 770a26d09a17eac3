//! The rights that the Redis user needs, and the errors without them.

use crate::{
    led_by,
    redis_server::Redis,
    server_on, serving, start_on_url,
    stream::{Stream, attachment},
    support::{Lock, Server, acquire_request, until, waiting_request, within},
};
use fencepost_proto::v1::{self, LeaseEnd, keep_alive_response::Message as ServerMessage, watch_response::Kind};
use std::time::Duration;
use tonic::Code;

const TTL: Duration = Duration::from_secs(30);
/// As in docs/operating/redis.md and in error messages.
const ENOUGH: &str = "+@scripting +@pubsub +@read +@write +@connection +info +time ~{fp}:* &{fp}:to:*";

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

/// A server without the right to send messages answers for the locks that it leads, and no call is lost: a waiter whose
/// server it cannot tell of an offer is served once that server asks.
#[tokio::test]
async fn the_only_server_needs_no_right_to_send_messages() {
    let redis = Redis::start(&[]);
    let alone = server_with(&redis, ENOUGH.trim_end_matches(" &{fp}:to:*")).await;
    let held = alone.client().acquire_lease(acquire_request("a", TTL)).await;
    let mut waiting = alone.client();
    let waiter = tokio::spawn(async move { waiting.acquire_lease(waiting_request("a", TTL, TTL)).await });
    until(|| async { alone.client().lock_info("a").await.waiters == 1 }).await;
    assert_eq!(alone.client().release_lease(&held).await, LeaseEnd::Released);
    assert!(within(waiter).await.unwrap().fencing_token > held.fencing_token);
}

/// A script that fails halfway for lack of a right is not reported as damaged data, wherever the right goes missing.
#[tokio::test]
async fn the_error_for_a_missing_right_names_the_remedy() {
    let redis = Redis::start(&[]);
    let server = server_with(&redis, ENOUGH).await;
    for (lost, back) in [("-hset", "+hset"), ("-mset", "+mset"), ("-evalsha", "+evalsha"), ("resetkeys", "~{fp}:*")] {
        redis.command(&["ACL", "SETUSER", "fp", lost]);
        until(|| async {
            let refused = server.client().acquire(acquire_request("a", Duration::from_secs(1))).await;
            refused.is_err_and(|status| {
                assert_eq!(status.code(), Code::Unavailable, "{lost}: {status}");
                status.message().contains("ACL SETUSER") && status.message().contains("~{fp}:*")
            })
        })
        .await;
        redis.command(&["ACL", "SETUSER", "fp", back]);
        until(|| async { server.client().acquire(acquire_request("b", Duration::from_millis(50))).await.is_ok() })
            .await;
    }
}

/// A message notifies servers of the end of a lease. If it is lost, the next beats do, however long the TTL.
#[tokio::test]
async fn a_stream_learns_of_the_end_of_a_lease_if_its_message_was_lost() {
    let redis = Redis::start(&[]);
    let (subscriber, other) = (server_with(&redis, ENOUGH).await, server_on(&redis).await);
    let lock = led_by(&other, &redis).await;
    let lease = subscriber.client().acquire_lease(acquire_request(&lock, TTL * 120)).await;
    let mut stream = Stream::open(subscriber.client()).await;
    stream.attach(vec![attachment(1, &lease)]).await;
    assert!(matches!(stream.next_but_beats(true).await, ServerMessage::Attached(_)));
    // Redis closes the connection of the subscription.
    redis.command(&["ACL", "SETUSER", "fp", "resetchannels"]);
    let force = v1::ForceReleaseRequest { lock_name: lock, expected_token: lease.fencing_token, reason: "test".into() };
    other.admin().force_release(force).await.unwrap();
    redis.command(&["ACL", "SETUSER", "fp", "&{fp}:to:*"]);
    let ServerMessage::Lost(lost) = within(stream.next_but_beats(true)).await else { panic!("the lease is not lost") };
    assert_eq!(lost.handle, 1);
}
