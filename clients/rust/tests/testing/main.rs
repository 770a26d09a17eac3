//! The fake server of the module `testing`, with real clients. The command line's tests cover its real server.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod rules;

use fencepost_client::testing::{FakeServer, NotHeld};
use fencepost_client::{Client, LeaseEnd, LossCause, raw::v1};
use rules::{BOUND, held_for, info, wait, waiters, within};
use std::time::Duration;

fn start() -> (FakeServer, Client) {
    let server = FakeServer::start().unwrap();
    let client = rules::client(server.address());
    (server, client)
}

#[tokio::test]
async fn the_fake_grants_in_order_and_renews() {
    rules::it_grants_in_order_and_renews(FakeServer::start().unwrap().address()).await;
}

#[tokio::test]
async fn the_fake_answers_questions() {
    rules::it_answers_questions(FakeServer::start().unwrap().address()).await;
}

#[tokio::test]
async fn the_fake_has_the_same_locks_for_unary_calls_and_keep_alive_streams() {
    let server = FakeServer::start().unwrap();
    rules::it_has_the_same_locks_for_unary_calls_and_keep_alive_streams(server.address()).await;
}

#[tokio::test]
async fn a_loss_is_reported_and_the_next_waiter_served() {
    let (server, client) = start();
    let lock = client.acquire("orders/42").await.unwrap();
    let next = wait(&client, "orders/42");
    waiters(&client, "orders/42", 1).await;
    server.lose("orders/42").unwrap();
    let next = within(next).await.unwrap().unwrap();
    let lost = within(lock.lost()).await;
    assert_eq!((lost.cause, lost.successor_token), (LossCause::Revoked, Some(next.token())));
    assert_eq!(next.previous_end(), Some(LeaseEnd::Revoked));
    assert!(!lock.release().await.unwrap().was_held());
    let error = server.lose("other").unwrap_err();
    assert_eq!(error, NotHeld { name: "other".to_owned() });
    assert_eq!(error.to_string(), "nobody holds lock \"other\"");
}

#[tokio::test]
async fn a_dropped_reply_is_asked_for_again() {
    let (server, client) = start();
    let ttl = Duration::from_millis(2_500);
    let kept = client.acquire("kept").ttl(ttl).await.unwrap();
    server.drop_reply();
    let lock = client.acquire("orders/42").await.unwrap();
    assert_eq!(lock.token(), kept.token() + 1, "the repetition was not granted anew");
    server.drop_reply();
    assert!(lock.release().await.unwrap().was_held());
    held_for(&client, "kept", ttl * 5 / 4).await;
    assert!(kept.is_valid(), "it has moved to the next session");
}

#[tokio::test]
async fn a_wait_outlives_its_stream() {
    let (server, client) = start();
    let other = rules::client(server.address());
    let lock = client.acquire("orders/42").await.unwrap();
    let (sender, mut position) = tokio::sync::watch::channel(None);
    let first = tokio::spawn(other.acquire("orders/42").wait(BOUND).queue_position(sender).into_future());
    within(position.changed()).await.unwrap();
    let second = wait(&client, "orders/42");
    waiters(&client, "orders/42", 2).await;
    // The stream of the first ends, and its request comes again.
    server.drop_reply();
    drop(other.acquire("other").await.unwrap());
    within(position.changed()).await.unwrap();
    assert_eq!(*position.borrow(), Some(0));
    lock.release().await.unwrap();
    let first = within(first).await.unwrap().unwrap();
    assert!(!second.is_finished());
    first.release().await.unwrap();
    drop(within(second).await.unwrap().unwrap());
}

#[tokio::test]
async fn a_cancelled_wait_leaves_the_queue() {
    let (_server, client) = start();
    let _lock = client.acquire("orders/42").await.unwrap();
    let waiting = wait(&client, "orders/42");
    waiters(&client, "orders/42", 1).await;
    waiting.abort();
    waiters(&client, "orders/42", 0).await;
}

#[tokio::test]
async fn a_pause_loses_locks() {
    let (server, client) = start();
    let lock = client.acquire("orders/42").ttl(Duration::from_millis(400)).await.unwrap();
    server.pause();
    assert_eq!(within(lock.lost()).await.cause, LossCause::Silence);
    server.resume();
    let next = within(client.acquire("orders/42").wait(BOUND).into_future()).await.unwrap();
    assert!(next.token() > lock.token());
    assert_eq!(next.previous_end(), Some(LeaseEnd::Expired));
}

#[tokio::test]
async fn a_paused_fake_answers_nothing_until_it_is_resumed() {
    let (server, client) = start();
    let lock = client.acquire("orders/42").await.unwrap();
    server.pause();
    let mut asking = tokio::spawn(async move { info(&client, "orders/42").await });
    // As long as it waits, an answer would have come.
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut asking).await.is_err());
    server.lose("orders/42").unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(300), lock.lost()).await.is_err());
    server.resume();
    assert_eq!(within(lock.lost()).await.cause, LossCause::Revoked);
    assert_eq!(within(asking).await.unwrap().newest_token, lock.token());
}

#[tokio::test]
async fn a_dropped_reply_to_a_unary_call_is_asked_for_again() {
    let (server, client) = start();
    let calls = client.calls();
    server.drop_reply();
    let request = v1::AcquireRequest { lock_name: "orders/42".to_owned(), ..Default::default() };
    let lease = calls.acquire(request).await.unwrap().lease.unwrap();
    let holders = info(&client, "orders/42").await.holders;
    assert_eq!((lease.fencing_token, holders[0].fencing_token), (1, 1), "the repetition was not granted anew");
    server.drop_reply();
    let release = v1::ReleaseRequest { lock_name: lease.lock_name, lease_id: lease.lease_id };
    assert_eq!(calls.release(release).await.unwrap().end(), v1::LeaseEnd::Released);
}

/// Also while it is paused and calls wait.
#[tokio::test]
async fn a_dropped_fake_is_gone() {
    let (server, client) = start();
    let lock = client.acquire("orders/42").ttl(Duration::from_secs(1)).await.unwrap();
    let waiting = wait(&client, "orders/42");
    waiters(&client, "orders/42", 1).await;
    server.pause();
    let address = server.address().to_owned();
    drop(server);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    assert_eq!(within(lock.lost()).await.cause, LossCause::Silence);
    waiting.abort();
}
