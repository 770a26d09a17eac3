//! Observing a lock: its states, over outages, until an error or the end of the observer.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{BOUND, Fake, client};
use fencepost_client::{Code, LockInfo, Observing, raw::v1};
use std::collections::HashMap;
use tokio::time::timeout;
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

fn with_reason(code: tonic::Code, reason: &str) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, "fencepost", HashMap::new());
    Status::with_error_details(code, "no", details)
}

/// A lock in a state with this token.
fn state(token: u64) -> v1::LockInfo {
    v1::LockInfo { lock_name: "x".to_owned(), newest_token: token, ..Default::default() }
}

/// Waits for a stream, and answers it with a state.
async fn tell(fake: &Fake, stream: usize, token: u64) {
    fake.until("it observes", |state| state.observers.len() > stream).await;
    let to_client = fake.state().observers[stream].clone();
    to_client.send(Ok(v1::ObserveResponse { lock: Some(state(token)) })).await.unwrap();
}

async fn end(fake: &Fake, stream: usize, status: Status) {
    let to_client = fake.state().observers[stream].clone();
    to_client.send(Err(status)).await.unwrap();
}

async fn next(observing: &mut Observing) -> LockInfo {
    timeout(BOUND, observing.next()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_state_says_who_holds_the_lock_and_what_they_say() {
    let fake = Fake::start().await;
    let mut observing = client(&[&fake]).observe("x");
    fake.until("it observes", |state| state.observers.len() == 1).await;
    let to_client = fake.state().observers[0].clone();
    let metadata = HashMap::from([("address".to_owned(), "a:1".to_owned())]);
    let holder =
        v1::LockHolder { holder: "a".into(), fencing_token: 41, description: 2, metadata, ..Default::default() };
    let semaphore = Some(v1::Semaphore { permits_used: 1, permit_limit: 3, permit_limit_version: 2 });
    let lock = v1::LockInfo { holders: vec![holder], holder_count: 1, waiters: 4, semaphore, ..state(41) };
    to_client.send(Ok(v1::ObserveResponse { lock: Some(lock) })).await.unwrap();
    let lock = next(&mut observing).await;
    assert_eq!((lock.name.as_str(), lock.holder_count, lock.waiters), ("x", 1, 4));
    assert_eq!((lock.newest_token, lock.semaphore.map(|it| it.permit_limit)), (Some(41), Some(3)));
    assert_eq!((lock.holders[0].description, lock.holders[0].metadata["address"].as_str()), (2, "a:1"));
    to_client.send(Ok(v1::ObserveResponse { lock: Some(state(0)) })).await.unwrap();
    let nobody = next(&mut observing).await;
    assert!(nobody.holders.is_empty() && nobody.newest_token.is_none());
}

#[tokio::test]
async fn an_observer_goes_on_over_the_ends_of_streams_on_the_next_server() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    let mut observing = client(&[&a, &b]).observe("x");
    tell(&a, 0, 1).await;
    assert_eq!(next(&mut observing).await.newest_token, Some(1));
    end(&a, 0, with_reason(tonic::Code::Unavailable, "DRAINING")).await;
    tell(&b, 0, 2).await;
    assert_eq!(next(&mut observing).await.newest_token, Some(2));
    // A stream that just ends.
    b.update(|state| state.observers.clear());
    tell(&a, 1, 3).await;
    assert_eq!(next(&mut observing).await.newest_token, Some(3));
    end(&a, 1, with_reason(tonic::Code::Unauthenticated, "CREDENTIALS_EXPIRED")).await;
    tell(&b, 0, 4).await;
    assert_eq!(next(&mut observing).await.newest_token, Some(4));
}

#[tokio::test]
async fn an_error_that_no_later_stream_mends_is_told_and_final() {
    let fake = Fake::start().await;
    let mut observing = client(&[&fake]).observe("x");
    tell(&fake, 0, 1).await;
    assert_eq!(next(&mut observing).await.newest_token, Some(1));
    end(&fake, 0, with_reason(tonic::Code::PermissionDenied, "NOT_PERMITTED")).await;
    for _ in 0..2 {
        let error = timeout(BOUND, observing.next()).await.unwrap().unwrap_err();
        assert_eq!((error.code(), error.reason().as_deref()), (Code::PermissionDenied, Some("NOT_PERMITTED")));
    }
    assert_eq!(fake.state().observers.len(), 1);
}

#[tokio::test]
async fn the_end_of_the_observer_is_that_of_its_stream() {
    let fake = Fake::start().await;
    let mut observing = client(&[&fake]).observe("x");
    tell(&fake, 0, 1).await;
    next(&mut observing).await;
    drop(observing);
    let to_client = fake.state().observers[0].clone();
    timeout(BOUND, to_client.closed()).await.unwrap();
}
