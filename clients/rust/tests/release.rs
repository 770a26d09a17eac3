//! Releasing locks, and running a body under one.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{BOUND, Body, Do, Fake, TTL, builder, client, refused, released};
use fencepost_client::raw::v1::session_response::Message as ServerMessage;
use fencepost_client::{AcquireError, LeaseEnd, LossCause, ReleaseError, RunError, raw::v1};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tonic::Status;

#[tokio::test]
async fn a_release_stops_renewals_and_returns_how_the_lease_ended() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let lock = client.acquire("x").ttl(TTL).await.unwrap();
    fake.until("attached", |state| state.streams.iter().any(|stream| !stream.attached.is_empty())).await;
    let held = lock.held();
    let result = lock.release().await.unwrap();
    assert!(result.was_held() && result.successor_token.is_none());
    assert!(!held.is_valid());
    assert_eq!(held.lost().await.cause, LossCause::Released);
    assert!(fake.state().streams[0].attached.is_empty(), "never renewed again");

    fake.on_release(|_| Do::Answer(released(v1::LeaseEnd::Expired)));
    let result = client.acquire("x").await.unwrap().release().await.unwrap();
    assert_eq!((result.end, result.successor_token), (Some(LeaseEnd::Expired), Some(42)));
}

#[tokio::test]
async fn a_release_is_retried_with_the_same_ids() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    let lock = client(&[&a, &b]).acquire("x").await.unwrap();
    a.on_release(|_| Do::Fail(Status::unavailable("lost")));
    assert!(lock.release().await.unwrap().was_held());
    assert_eq!(a.state().releases, b.state().releases);
}

#[tokio::test]
async fn a_release_whose_outcome_stays_unknown_is_reported() {
    let fake = Fake::start().await;
    fake.on_release(|_| Do::Fail(Status::unavailable("lost")));
    let client = builder(&[&fake]).retry_for(Duration::from_secs(2)).build().unwrap();
    let error = client.acquire("x").await.unwrap().release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::OutcomeUnknown { cause: Some(_) }), "{error:?}");
    assert!(fake.state().releases.len() > 1);
}

#[tokio::test]
async fn a_lock_that_is_dropped_is_released() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    drop(client.acquire("x").await.unwrap());
    client.flush().await;
    assert_eq!(fake.state().releases.len(), 1);
}

#[tokio::test]
async fn a_failed_release_does_not_prevent_another() {
    let fake = Fake::start().await;
    fake.on_release(|request| match request.lock_name.as_str() {
        "x" => Do::Fail(Status::internal("broken")),
        _ => Do::Answer(released(v1::LeaseEnd::Released)),
    });
    let client = client(&[&fake]);
    let locks = [client.acquire("x").await.unwrap(), client.acquire("y").await.unwrap()];
    drop(locks);
    client.flush().await;
    assert!(fake.state().releases.iter().any(|request| request.lock_name == "y"));
}

#[tokio::test]
async fn a_lock_that_the_server_reports_lost_is_not_released() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let lock = client.acquire("x").ttl(TTL).await.unwrap();
    fake.until("attached", |state| state.streams.iter().any(|stream| !stream.attached.is_empty())).await;
    let other = client.acquire("y").ttl(TTL).await.unwrap();
    let end = v1::LeaseEnd::Revoked.into();
    fake.tell_each(|handle| ServerMessage::Lost(v1::Lost { handle, end, successor_token: 42 }));
    for lock in [&lock, &other] {
        tokio::time::timeout(BOUND, lock.lost()).await.unwrap();
    }
    drop(lock);
    let answer = other.release().await.unwrap();
    assert_eq!((answer.end, answer.successor_token), (Some(LeaseEnd::Revoked), Some(42)));
    client.flush().await;
    assert!(fake.state().releases.is_empty());
}

/// The server is away for the whole test, so a release that waits for it never returns in time.
#[tokio::test]
async fn the_release_of_a_lock_that_is_over_does_not_wait_for_the_server() {
    let fake = Fake::start().await;
    let client = builder(&[&fake]).retry_for(4 * BOUND).build().unwrap();
    let lock = client.acquire("x").ttl(TTL).await.unwrap();
    fake.update(|state| (state.beats, state.renews_leases) = (false, false));
    fake.on_release(|_| Do::Hang);
    let lost = tokio::time::timeout(BOUND, lock.lost()).await.unwrap();
    assert_eq!(lost.cause, LossCause::Silence);
    let answer = tokio::time::timeout(BOUND, lock.release()).await.unwrap().unwrap();
    assert_eq!((answer.end, answer.successor_token), (None, None), "no end is known");
    assert!(!answer.was_held());
    // By the server's clock the lease may have a little left, so it is released in the background.
    fake.until("sent", |state| state.releases.len() == 1).await;
    fake.on_release(|_| Do::Answer(released(v1::LeaseEnd::Released)));
    fake.end_streams();
    tokio::time::timeout(BOUND, client.flush()).await.unwrap();
    assert!(fake.state().releases.len() > 1, "retried");
}

#[test]
fn a_lock_may_be_dropped_outside_its_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (fake, lock) = runtime.block_on(async {
        let fake = Fake::start().await;
        let lock = client(&[&fake]).acquire("x").await.unwrap();
        (fake, lock)
    });
    drop(lock);
    runtime.block_on(fake.until("released", |state| state.releases.len() == 1));
    let orphan = runtime.block_on(async { client(&[&fake]).acquire("y").await.unwrap() });
    drop(runtime);
    assert!(orphan.is_valid(), "by the local clock");
    drop(orphan);
}

/// The server keeps the lock unavailable until it hears that the holder has stopped.
#[tokio::test]
async fn a_lock_with_a_lock_delay_is_released_although_its_lease_has_ended() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    for (lock_delay, releases) in [(0, 0), (10, 1)] {
        let acquire = client.acquire("x").ttl(TTL).lock_delay(Duration::from_secs(lock_delay));
        let lock = acquire.await.unwrap();
        let end = v1::LeaseEnd::Expired.into();
        fake.tell_each(|handle| ServerMessage::Lost(v1::Lost { handle, end, successor_token: 0 }));
        assert_eq!(tokio::time::timeout(BOUND, lock.lost()).await.unwrap().cause, LossCause::Expired);
        assert_eq!(lock.release().await.unwrap().end, Some(LeaseEnd::Expired));
        client.flush().await;
        assert_eq!(fake.state().releases.len(), releases);
    }
}

#[tokio::test]
async fn a_dropped_release_continues() {
    let fake = Fake::start().await;
    let mut first = true;
    fake.on_release(move |_| {
        let hang = std::mem::take(&mut first);
        if hang { Do::Fail(Status::unavailable("lost")) } else { Do::Answer(released(v1::LeaseEnd::Released)) }
    });
    let lock = client(&[&fake]).acquire("x").await.unwrap();
    let release = tokio::spawn(lock.release());
    fake.until("sent", |state| state.releases.len() == 1).await;
    release.abort();
    fake.until("sent again", |state| state.releases.len() == 2).await;
}

#[tokio::test]
async fn a_body_runs_under_the_lock_and_its_value_is_returned() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let token = client.acquire("x").run(|lock| async move { lock.is_valid().then(|| lock.token()) }).await.unwrap();
    assert_eq!(token, Some(41));
    assert_eq!(fake.state().releases.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_and_its_body_can_move_between_threads() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let running = tokio::spawn(async move { client.acquire("x").run(|lock| async move { lock.token() }).await });
    assert_eq!(running.await.unwrap().unwrap(), 41);
}

#[tokio::test]
async fn a_body_never_runs_without_the_lock() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Answer(refused(v1::acquire_response::Outcome::Contended)));
    let result = client(&[&fake]).acquire("x").run(|_| async { panic!("ran") }).await;
    assert!(matches!(result, Err(RunError::Acquire(AcquireError::Contended { .. }))));
}

#[tokio::test]
async fn a_failed_release_never_masks_the_value_of_the_body() {
    let fake = Fake::start().await;
    fake.on_release(|_| Do::Fail(Status::internal("broken")));
    let result = client(&[&fake]).acquire("x").run(|_| async { Err::<(), _>("the body's own") }).await;
    assert_eq!(result.unwrap(), Err("the body's own"));
    fake.on_release(|_| Do::Answer(released(v1::LeaseEnd::Expired)));
    assert_eq!(client(&[&fake]).acquire("x").run(|_| async { 7 }).await.unwrap(), 7);
}

#[tokio::test]
async fn a_body_is_dropped_when_the_lock_is_lost() {
    let fake = Fake::start().await;
    let noted = Arc::new(AtomicBool::new(false));
    let body = Body { fake: fake.clone(), dropped_before_release: noted.clone() };
    let (say, runs) = tokio::sync::oneshot::channel();
    let running = tokio::spawn(client(&[&fake]).acquire("x").ttl(TTL).run(move |_| async move {
        let _body = body;
        say.send(()).unwrap();
        std::future::pending::<()>().await;
    }));
    runs.await.unwrap();
    let end = v1::LeaseEnd::Revoked.into();
    fake.tell_each(|handle| ServerMessage::Lost(v1::Lost { handle, end, successor_token: 0 }));
    let result = tokio::time::timeout(BOUND, running).await.unwrap().unwrap();
    assert!(matches!(&result, Err(RunError::Lost(lost)) if lost.cause == LossCause::Revoked), "{result:?}");
    assert!(noted.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_dropped_run_drops_the_body_and_then_releases_the_lock() {
    let fake = Fake::start().await;
    let noted = Arc::new(AtomicBool::new(false));
    let body = Body { fake: fake.clone(), dropped_before_release: noted.clone() };
    let (say, runs) = tokio::sync::oneshot::channel();
    let running = tokio::spawn(client(&[&fake]).acquire("x").run(move |_| async move {
        let _body = body;
        say.send(()).unwrap();
        std::future::pending::<()>().await;
    }));
    runs.await.unwrap();
    running.abort();
    fake.until("released", |state| state.releases.len() == 1).await;
    assert!(noted.load(Ordering::SeqCst));
}
