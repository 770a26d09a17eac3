//! What a Redis user has to be allowed, and what is said when it is not.

use crate::{
    redis_server::Redis,
    server_on, serving, start_on_url,
    stream::{Stream, attachment},
    support::{Lock, Server, assert_refused, until, waiting_wish, wish, within},
};
use fencepost_proto::v1::{self, LeaseEnd, keep_alive_response::Message as Hear, watch_response::Kind};
use std::time::Duration;
use tonic::Code;

const TTL: Duration = Duration::from_secs(30);
/// As the README and the messages give it.
const ENOUGH: &str = "+@scripting +@pubsub +@read +@write +@connection +info +time ~fp:* &fp:c:*";

/// A server that comes to Redis as a user with these rights.
async fn server_with(redis: &Redis, rights: &str) -> Server {
    let user: Vec<&str> = ["ACL", "SETUSER", "fp", "reset", "on", ">pw"].into_iter().chain(rights.split(' ')).collect();
    assert_eq!(redis.command(&user).text().trim(), "OK");
    let server = start_on_url(redis.url().replace("redis://", "redis://fp:pw@")).await;
    serving(&server, true).await;
    server
}

#[tokio::test]
async fn few_rights_are_enough() {
    let redis = Redis::start(&[]);
    let (one, two) = (server_with(&redis, ENOUGH).await, server_with(&redis, ENOUGH).await);
    let mut events = within(one.client().watch(v1::WatchRequest::default())).await.unwrap().into_inner();
    let held = one.client().take(wish("a", TTL)).await;
    let mut waiting = two.client();
    let waiter = tokio::spawn(async move { waiting.take(waiting_wish("a", TTL, TTL)).await });
    until(|| async { one.client().look("a").await.waiters == 1 }).await;
    assert_eq!(one.client().list(v1::ListRequest::default()).await.unwrap().into_inner().locks.len(), 1);
    assert_eq!(one.client().give_back(&held).await, LeaseEnd::Released);
    let lease = within(waiter).await.unwrap();
    let force =
        v1::ForceReleaseRequest { lock_name: "a".into(), expected_token: lease.fencing_token, reason: "test".into() };
    one.admin().force_release(force).await.unwrap();
    let wanted = [Kind::Started, Kind::Granted, Kind::Released, Kind::Granted, Kind::Revoked];
    for kind in wanted {
        assert_eq!(within(events.message()).await.unwrap().unwrap().kind(), kind);
    }
}

/// A release that has to tell another server of it is done without that word: who waits there is served by the next
/// poll.
#[tokio::test]
async fn without_the_right_to_send_messages_locks_work() {
    let redis = Redis::start(&[]);
    let (mute, other) = (server_with(&redis, ENOUGH.trim_end_matches(" &fp:c:*")).await, server_on(&redis).await);
    let held = mute.client().take(wish("a", TTL)).await;
    let mut waiting = other.client();
    let waiter = tokio::spawn(async move { waiting.take(waiting_wish("a", TTL, TTL)).await });
    until(|| async { other.client().look("a").await.waiters == 1 }).await;
    assert_eq!(mute.client().give_back(&held).await, LeaseEnd::Released);
    assert!(within(waiter).await.unwrap().fencing_token > held.fencing_token);
}

/// What a script may not do in the middle of its work is named, and is no damage to the data.
#[tokio::test]
async fn a_right_that_is_missing_is_named() {
    let redis = Redis::start(&[]);
    let server = server_with(&redis, &format!("{ENOUGH} -set")).await;
    let status = assert_refused(server.client().acquire(wish("a", TTL)).await, Code::Unavailable, "OUTCOME_UNKNOWN");
    assert!(status.message().contains("ACL SETUSER") && status.message().contains("~fp:*"), "{status}");
}

/// Its servers are told of a lease's end by a message. Where that is lost the holder learns it by the next beats,
/// however long its TTL.
#[tokio::test]
async fn a_stream_learns_of_an_end_whose_message_was_lost() {
    let redis = Redis::start(&[]);
    let (deaf, other) = (server_with(&redis, ENOUGH).await, server_on(&redis).await);
    let lease = deaf.client().take(wish("a", TTL * 120)).await;
    let mut stream = Stream::open(deaf.client()).await;
    stream.attach(vec![attachment(1, &lease)]).await;
    assert!(matches!(stream.next_but_beats(true).await, Hear::Attached(_)));
    // It ends the connection that listens.
    redis.command(&["ACL", "SETUSER", "fp", "resetchannels"]);
    let force =
        v1::ForceReleaseRequest { lock_name: "a".into(), expected_token: lease.fencing_token, reason: "test".into() };
    other.admin().force_release(force).await.unwrap();
    redis.command(&["ACL", "SETUSER", "fp", "&fp:c:*"]);
    let Hear::Lost(lost) = within(stream.next_but_beats(true)).await else { panic!("the holder is told") };
    assert_eq!(lost.handle, 1);
}

/// A server that may not listen tries again and again. Nothing more is lost by that, so nobody is troubled with it.
#[tokio::test]
async fn a_server_that_may_not_listen_tells_of_no_gap() {
    let redis = Redis::start(&[]);
    let mute = server_with(&redis, ENOUGH.trim_end_matches(" &fp:c:*")).await;
    let mut events = within(mute.client().watch(v1::WatchRequest::default())).await.unwrap().into_inner();
    let refused = || async { redis.info("errorstats", "errorstat_NOPERM").trim_start_matches("count=").parse::<u64>() };
    let before = refused().await.unwrap();
    until(|| async { refused().await.unwrap() >= before + 4 }).await;
    mute.client().take(wish("a", TTL)).await;
    for kind in [Kind::Started, Kind::Granted] {
        assert_eq!(within(events.message()).await.unwrap().unwrap().kind(), kind);
    }
}
