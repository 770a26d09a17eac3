//! The election of a leader.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{BOUND, Body, Do, Fake, TTL, client, refused};
use fencepost_client::raw::v1::session_response::Message as ServerMessage;
use fencepost_client::{AcquireError, raw::v1};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tonic::Status;

#[tokio::test]
async fn a_leader_whose_body_returns_resigns() {
    let fake = Fake::start().await;
    let led = client(&[&fake]).acquire("x").lead(|lock| async move { lock.is_valid().then(|| lock.token()) });
    assert_eq!(led.await.unwrap(), Some(41));
    assert_eq!(fake.state().releases.len(), 1);
}

#[tokio::test]
async fn a_leader_that_loses_its_lock_campaigns_again() {
    let fake = Fake::start().await;
    let terms = Arc::new(AtomicUsize::new(0));
    let (counted, (say, mut runs)) = (terms.clone(), tokio::sync::mpsc::unbounded_channel());
    let leading = tokio::spawn(client(&[&fake]).acquire("x").ttl(TTL).lead(move |lock| {
        let (term, say) = (counted.fetch_add(1, Ordering::SeqCst), say.clone());
        async move {
            say.send(()).unwrap();
            if term == 0 {
                std::future::pending::<()>().await;
            }
            lock.name().to_owned()
        }
    }));
    runs.recv().await.unwrap();
    let end = v1::LeaseEnd::Revoked.into();
    fake.tell_each(|handle| ServerMessage::Lost(v1::Lost { handle, end, successor_token: 0 }));
    assert_eq!(tokio::time::timeout(BOUND, leading).await.unwrap().unwrap().unwrap(), "x");
    assert_eq!((terms.load(Ordering::SeqCst), runs.recv().await), (2, Some(())));
    let ids: Vec<_> = fake.state().acquires.iter().map(|acquire| acquire.request_id.clone()).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "a new request for each term: {ids:?}");
}

#[tokio::test]
async fn a_campaign_goes_on_over_outages_full_queues_and_the_ends_of_waits() {
    let fake = Fake::start().await;
    let mut answers = vec![
        Do::Answer(refused(v1::acquire_response::Outcome::TimedOut)),
        Do::Fail(Status::resource_exhausted("full")),
        Do::Fail(Status::unavailable("away")),
    ];
    fake.on_acquire(move |request| answers.pop().unwrap_or_else(|| Do::Answer(fake::acquired(&request.lock_name))));
    assert_eq!(client(&[&fake]).acquire("x").lead(|_| async { 7 }).await.unwrap(), 7);
}

#[tokio::test]
async fn an_error_that_no_later_campaign_mends_is_returned() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Fail(Status::invalid_argument("no such name")));
    let result = client(&[&fake]).acquire("x").lead(|_| async { panic!("ran") }).await;
    assert!(matches!(result, Err(AcquireError::Invalid { .. })));
    fake.on_acquire(|_| Do::Fail(Status::permission_denied("not you")));
    let result = client(&[&fake]).acquire("x").lead(|_| async { panic!("ran") }).await;
    assert!(matches!(result, Err(AcquireError::Refused { .. })));
}

#[tokio::test]
async fn a_dropped_leader_drops_its_body_and_then_releases_the_lock() {
    let fake = Fake::start().await;
    let noted = Arc::new(AtomicBool::new(false));
    let (state, noted_by_body) = (fake.clone(), noted.clone());
    let (say, mut runs) = tokio::sync::mpsc::unbounded_channel();
    let leading = tokio::spawn(client(&[&fake]).acquire("x").lead(move |_| {
        let body = Body { fake: state.clone(), dropped_before_release: noted_by_body.clone() };
        let say = say.clone();
        async move {
            let _body = body;
            say.send(()).unwrap();
            std::future::pending::<()>().await;
        }
    }));
    runs.recv().await.unwrap();
    leading.abort();
    fake.until("released", |state| state.releases.len() == 1).await;
    assert!(noted.load(Ordering::SeqCst));
}
