//! Raw calls.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{BOUND, Do, Fake, builder, client};
use fencepost_client::Code;
use fencepost_client::raw::v1;
use std::time::Duration;
use tonic::Status;
use v1::watch_response::Kind;

#[tokio::test]
async fn answers_are_returned() {
    let fake = Fake::start().await;
    let calls = client(&[&fake]).calls();
    let request = v1::CheckTokenRequest { lock_name: "x".to_owned(), fencing_token: 7 };
    assert_eq!(calls.check_token(request).await.unwrap().newest_token, 7);
    let request = v1::RenewRequest { lock_name: "x".to_owned(), lease_id: "y".to_owned(), ttl: None };
    assert_eq!(calls.renew(request).await.unwrap().outcome(), v1::renew_response::Outcome::Renewed);
}

#[tokio::test]
async fn a_watch_begins_with_started_and_outlives_the_bound_of_its_opening() {
    let fake = Fake::start().await;
    let client = builder(&[&fake]).call_timeout(Duration::from_millis(1_500)).build().unwrap();
    let mut events = client.calls().watch(v1::WatchRequest::default()).await.unwrap();
    assert_eq!(events.message().await.unwrap().unwrap().kind(), Kind::Started);
    let next = tokio::time::timeout(Duration::from_millis(2_000), events.message()).await;
    assert!(!matches!(next, Ok(Err(_))), "no deadline ends it: {next:?}");
}

#[tokio::test]
async fn a_drain_goes_to_the_first_server_once() {
    // Neither server implements it, and a refusal is not retried elsewhere.
    let (a, b) = (Fake::start().await, Fake::start().await);
    let calls = client(&[&a, &b]).calls();
    let error = tokio::time::timeout(BOUND, calls.drain(v1::DrainRequest::default())).await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
    assert!(!error.is_outcome_unknown());
}

#[tokio::test]
async fn a_raw_acquire_with_an_id_of_the_caller_is_not_cleaned_up() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Fail(Status::unavailable("lost")));
    let client = builder(&[&fake]).retry_for(Duration::from_millis(150)).build().unwrap();
    let request_id = uuid::Uuid::new_v4().to_string();
    let request = v1::AcquireRequest { lock_name: "x".to_owned(), request_id, ..Default::default() };
    let error = client.calls().acquire(request).await.unwrap_err();
    assert!(error.is_outcome_unknown());
    let transmitted = fake.state().acquires.len();
    client.flush().await;
    assert_eq!(fake.state().acquires.len(), transmitted, "no cleanup: the caller may retry");
}
