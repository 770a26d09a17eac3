//! Bearer tokens.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{BOUND, Fake, TTL, builder};
use fencepost_client::Code;
use fencepost_client::{AcquireError, Client, ConfigError, raw::v1};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tonic::transport::Endpoint;

#[tokio::test]
async fn each_call_and_each_stream_carries_the_token_of_its_time() {
    let fake = Fake::start().await;
    let asked = Arc::new(AtomicU32::new(0));
    let provider = move || Ok(format!("token-{}", asked.fetch_add(1, Ordering::Relaxed)));
    let client = builder(&[&fake]).bearer_token(provider).build().unwrap();
    let lock = client.acquire("x").await.unwrap();
    let request = v1::AcquireRequest { lock_name: "y".to_owned(), ..Default::default() };
    client.calls().acquire(request).await.unwrap();
    client.calls().watch(v1::WatchRequest::default()).await.unwrap();
    drop(lock);
    client.flush().await;
    let expected = [0, 1, 2].map(|number| Some(format!("Bearer token-{number}")));
    assert_eq!(fake.state().authorizations, expected);
}

#[tokio::test]
async fn without_a_token_nothing_is_sent() {
    let fake = Fake::start().await;
    for (provider, why) in [
        ((|| Err("no file".into())) as fn() -> _, "no bearer token: no file"),
        (|| Ok("a\nb".to_owned()), "characters that a header cannot have"),
    ] {
        let client = builder(&[&fake]).bearer_token(provider).build().unwrap();
        match client.acquire("x").await {
            Err(AcquireError::Refused { source }) => {
                assert!(source.code() == Code::Unauthenticated && source.message().contains(why), "{source:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(fake.state().authorizations.is_empty() && fake.state().acquires.is_empty());
}

#[tokio::test]
async fn a_provider_that_fails_for_a_moment_ends_the_call_that_needs_it_and_costs_no_lock() {
    let fake = Fake::start().await;
    let (asked, down) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let provider = {
        let (asked, down) = (asked.clone(), down.clone());
        move || {
            asked.fetch_add(1, Ordering::Relaxed);
            if down.load(Ordering::Relaxed) { Err("the vault is down".into()) } else { Ok("secret".to_owned()) }
        }
    };
    let client = builder(&[&fake]).bearer_token(provider).build().unwrap();
    let lock = client.acquire("x").ttl(TTL).await.unwrap();
    down.store(true, Ordering::Relaxed);
    let before = asked.load(Ordering::Relaxed);
    let request = v1::GetRequest { lock_name: "x".to_owned() };
    let refused = client.calls().get(request).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Unauthenticated, "no bearer token: the vault is down"));
    assert_eq!(asked.load(Ordering::Relaxed), before + 1, "not repeated");
    fake.end_streams();
    let asks_again = async {
        while asked.load(Ordering::Relaxed) < before + 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(BOUND, asks_again).await.expect("the session asks again, for the lock");
    down.store(false, Ordering::Relaxed);
    fake.until("kept", |state| state.streams.len() == 2 && state.streams[1].answers.len() > 12).await;
    assert!(lock.is_valid());
}

#[tokio::test]
async fn a_token_is_not_sent_over_the_network_in_plain_text() {
    let with_token = || Client::builder().bearer_token(|| Ok("secret".to_owned()));
    for fine in ["127.0.0.1:1", "localhost", "[::1]", "unix:/run/a.sock"] {
        let client = with_token().server(fine).build().unwrap();
        assert!(!format!("{client:?}").contains("secret"), "{fine}");
    }
    for bad in ["10.0.0.1:7420", "locks.internal"] {
        let error = with_token().server("localhost").server(bad).build().unwrap_err();
        assert!(matches!(error, ConfigError::TokenInPlainText { .. }), "{bad}: {error:?}");
    }
    let endpoint = |uri| with_token().raw_endpoint(Endpoint::from_static(uri)).build();
    assert!(endpoint("http://127.0.0.1:1").is_ok());
    assert!(matches!(endpoint("http://10.0.0.1:1"), Err(ConfigError::TokenInPlainText { .. })));
}
