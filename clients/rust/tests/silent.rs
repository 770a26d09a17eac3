//! Connections that fall silent while new ones work: a session or call that went silent takes its connection with it.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod fake;
mod proxy;

use fake::{BOUND, Fake, TTL};
use fencepost_client::{Client, Moment, Status, raw::v1};
use proxy::Proxy;
use std::time::Duration;

/// Well under the time for which a call is repeated, which is 10 s.
const QUICK: Duration = Duration::from_secs(7);

fn client(proxy: &Proxy) -> Client {
    Client::new(&proxy.address).unwrap()
}

#[tokio::test]
async fn a_lock_outlives_the_silence_of_its_connection() {
    let fake = Fake::start().await;
    let proxy = Proxy::start(&fake.url).await;
    let client = client(&proxy);
    let lock = client.acquire("x").ttl(TTL).await.unwrap();
    proxy.silence();
    let silent_since = Moment::now();
    let other = client.acquire("y").await.unwrap();
    let took = Moment::now().since(silent_since);
    assert!(took < TTL, "the next acquire took {took:?}");
    fake.until("kept on another session", |state| {
        state.streams.len() > 1 && state.streams.last().unwrap().attached.len() == 2
    })
    .await;
    tokio::time::sleep((silent_since.plus(TTL * 3 / 2)).from_now()).await;
    assert!(lock.is_valid() && other.is_valid(), "{lock:?}");
    assert_eq!(lock.status(), Status::Held);
    assert_eq!(proxy.accepted(), 2, "one connection replaces the silent one");
}

#[tokio::test]
async fn an_acquire_without_other_locks_is_served_over_another_connection() {
    let fake = Fake::start().await;
    let proxy = Proxy::start(&fake.url).await;
    let client = client(&proxy);
    client.acquire("x").await.unwrap().release().await.unwrap();
    proxy.silence();
    let asked = Moment::now();
    let lock = tokio::time::timeout(BOUND, client.acquire("x")).await.unwrap().unwrap();
    let took = Moment::now().since(asked);
    assert!(lock.is_valid() && took < QUICK, "{took:?}");
}

#[tokio::test]
async fn unary_calls_move_to_another_connection() {
    let fake = Fake::start().await;
    let proxy = Proxy::start(&fake.url).await;
    let call = Duration::from_millis(500);
    let client = Client::builder().server(&proxy.address).call_timeout(call).build().unwrap();
    let waits = v1::AcquireRequest { lock_name: "x".into(), wait_timeout: fake::wire(call), ..Default::default() };
    for wanted in 1..=3 {
        client.calls().check_token(v1::CheckTokenRequest::default()).await.unwrap();
        // Waits have a connection of their own.
        client.calls().acquire(waits.clone()).await.unwrap();
        assert_eq!(proxy.accepted(), 2 * wanted);
        proxy.silence();
    }
}
