//! Many operations on one stream: matching of answers, and the end of the stream.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{BOUND, Do, Fake, TTL, acquired, builder, client, refused, released, wire};
use fencepost_client::{AcquireError, Client, Lock, raw::v1};
use std::collections::HashSet;
use std::time::Duration;
use tokio::task::JoinHandle;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use v1::acquire_response::Outcome;

/// A waiting acquire in its own task.
fn wait(client: &Client, name: &str) -> JoinHandle<Result<Lock, AcquireError>> {
    let acquire = client.acquire(name).ttl(TTL).wait(BOUND);
    tokio::spawn(acquire.into_future())
}

fn with_reason(code: Code, reason: &str, delay: Duration) -> Status {
    let mut details = ErrorDetails::with_retry_info(Some(delay));
    details.set_error_info(reason, "fencepost", std::collections::HashMap::new());
    Status::with_error_details(code, "no", details)
}

fn grant(request: &v1::AcquireRequest) -> Do<v1::AcquireResponse> {
    Do::Answer(acquired(&request.lock_name))
}

#[tokio::test]
async fn answers_find_their_callers_in_any_order() {
    let fake = Fake::start().await;
    fake.on_acquire(|request| {
        let late = Duration::from_millis(u64::from(request.request_id.as_bytes()[0]));
        Do::Late(late, acquired(&request.lock_name))
    });
    let client = client(&[&fake]);
    let names: Vec<_> = (0..300).map(|n| format!("lock-{n}")).collect();
    let waits: Vec<_> = names.iter().map(|name| wait(&client, name)).collect();
    let mut locks = Vec::new();
    for (name, wait) in names.iter().zip(waits) {
        let lock = wait.await.unwrap().unwrap();
        assert_eq!((lock.name(), lock.lease_id()), (name.as_str(), fake::lease_id(name).as_str()));
        locks.push(lock);
    }
    {
        let state = fake.state();
        let stream = &state.streams[0];
        assert_eq!((state.streams.len(), stream.attached.len()), (1, 300));
        let numbers: HashSet<_> = stream.operations.iter().collect();
        assert_eq!(numbers.len(), stream.operations.len(), "a number each");
        assert!(stream.all_attached.iter().all(|lease| lease.attempt == 1), "attached by their grants");
        assert_eq!(stream.all_attached.len(), 300, "and by nothing else");
    }
    drop(locks);
    client.flush().await;
    let state = fake.state();
    assert_eq!((state.releases.len(), state.streams.len()), (300, 1));
    assert!(state.streams[0].detached.is_empty(), "a release needs no detachment");
}

#[tokio::test]
async fn operations_in_flight_on_an_ended_session_are_retried_and_granted_once() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    a.on_acquire(|request| if request.lock_name == "held" { grant(request) } else { Do::Hang });
    a.on_release(|_| Do::Hang);
    let client = client(&[&a, &b]);
    let held = client.acquire("held").await.unwrap();
    let releasing = tokio::spawn(held.release());
    let waits = [wait(&client, "x"), wait(&client, "y")];
    a.until("all in flight", |state| state.acquires.len() == 3 && state.releases.len() == 1).await;
    a.end_streams();
    for wait in waits {
        assert!(tokio::time::timeout(BOUND, wait).await.unwrap().unwrap().unwrap().is_valid());
    }
    assert!(tokio::time::timeout(BOUND, releasing).await.unwrap().unwrap().unwrap().was_held());
    let (a, b) = (a.state(), b.state());
    assert!(b.releases.contains(&a.releases[0]));
    assert_eq!(b.acquires.len(), 2);
    for again in &b.acquires {
        let first = a.acquires.iter().find(|request| request.lock_name == again.lock_name).unwrap();
        assert_eq!((&again.request_id, again.attempt, first.attempt), (&first.request_id, 2, 1));
    }
    assert_eq!(b.streams.len(), 1);
}

#[tokio::test]
async fn an_acquire_dropped_in_the_queue_is_cancelled() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Hang);
    let client = client(&[&fake]);
    let waiting = wait(&client, "x");
    fake.until("queued", |state| state.acquires.len() == 1).await;
    waiting.abort();
    fake.until("cancelled", |state| state.dropped == [1]).await;
    tokio::time::timeout(BOUND, client.flush()).await.unwrap();
    let state = fake.state();
    assert_eq!(state.streams[0].cancelled, state.streams[0].operations);
    assert_eq!((state.acquires.len(), state.releases.len()), (1, 0), "the answer makes a cleanup unnecessary");
}

#[tokio::test]
async fn a_session_that_answers_nothing_is_replaced_although_there_is_no_other_server() {
    let fake = Fake::start().await;
    fake.state().deaf = 1;
    let client = builder(&[&fake]).call_timeout(Duration::from_millis(500)).retry_for(BOUND).build().unwrap();
    let lock = tokio::time::timeout(BOUND, client.acquire("x")).await.unwrap().unwrap();
    assert!(lock.is_valid());
    assert_eq!(fake.state().acquires[0].attempt, 2, "the first transmission is lost");
    fake.until("the session is closed", |state| state.streams[0].ended).await;
    assert!(lock.release().await.unwrap().was_held());
    assert_eq!(fake.state().streams.len(), 2);
}

#[tokio::test]
async fn a_session_ends_with_its_client_although_a_cancelled_acquire_is_never_answered() {
    let fake = Fake::start().await;
    fake.state().ignores_cancel = true;
    fake.on_acquire(|request| match request.attempt {
        1 => Do::Hang,
        _ => Do::Answer(refused(Outcome::Contended)),
    });
    let client = builder(&[&fake]).call_timeout(Duration::from_millis(200)).build().unwrap();
    let waiting = wait(&client, "x");
    fake.until("queued", |state| state.acquires.len() == 1).await;
    waiting.abort();
    fake.until("withdrawn", |state| state.acquires.len() == 2).await;
    drop(client);
    fake.until("ended", |state| state.streams[0].ended).await;
}

#[tokio::test]
async fn a_grant_that_crosses_with_its_cancellation_is_released() {
    let fake = Fake::start().await;
    fake.state().ignores_cancel = true;
    fake.on_acquire(|_| Do::Late(Duration::from_millis(200), acquired("x")));
    let client = client(&[&fake]);
    let waiting = wait(&client, "x");
    fake.until("queued", |state| state.acquires.len() == 1).await;
    waiting.abort();
    fake.until("released", |state| state.releases.len() == 1).await;
    tokio::time::timeout(BOUND, client.flush()).await.unwrap();
    let state = fake.state();
    assert_eq!((state.streams[0].cancelled.len(), state.acquires.len()), (1, 1));
    assert_eq!(state.releases[0].lease_id, fake::lease_id("x"));
    assert!(state.streams[0].attached.is_empty());
}

#[tokio::test]
async fn an_acquire_dropped_on_a_session_that_dies_is_cleaned_up_by_the_next_attempt() {
    let fake = Fake::start().await;
    fake.state().ignores_cancel = true;
    fake.on_acquire(|request| if request.attempt == 1 { Do::Hang } else { grant(request) });
    let client = client(&[&fake]);
    let waiting = wait(&client, "x");
    fake.until("queued", |state| state.acquires.len() == 1).await;
    waiting.abort();
    fake.until("cancelled", |state| state.streams[0].cancelled.len() == 1).await;
    fake.end_streams();
    fake.until("released", |state| state.releases.len() == 1).await;
    {
        let state = fake.state();
        let (first, second) = (&state.acquires[0], &state.acquires[1]);
        assert_eq!((&second.request_id, second.attempt), (&first.request_id, 2));
        assert_eq!(second.wait_timeout.unwrap_or_default(), wire(Duration::ZERO).unwrap());
        assert_eq!(state.releases[0].lease_id, fake::lease_id("x"));
        assert!(state.streams.iter().all(|stream| stream.attached.is_empty()), "never kept alive");
    }
    client.flush().await;
}

#[tokio::test]
async fn a_grant_for_an_abandoned_transmission_is_not_kept_alive() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    a.state().ignores_cancel = true;
    a.on_acquire(|request| match request.lock_name.as_str() {
        "waits" => Do::Hang,
        _ => Do::Late(Duration::from_millis(1_500), acquired("x")),
    });
    b.on_acquire(|_| Do::Answer(refused(Outcome::Contended)));
    let client = builder(&[&a, &b]).call_timeout(Duration::from_millis(700)).build().unwrap();
    // It keeps the session open.
    let _waiting = wait(&client, "waits");
    a.until("queued", |state| state.acquires.len() == 1).await;
    let error = client.acquire("x").await.unwrap_err();
    assert!(matches!(error, AcquireError::Contended { .. }), "{error:?}");
    a.until("granted", |state| state.granted.len() == 1).await;
    a.until("detached", |state| state.streams.iter().all(|stream| stream.attached.is_empty())).await;
    assert!(a.state().releases.is_empty(), "a newer attempt may have been granted the same lease");
}

#[tokio::test]
async fn operations_and_leases_leave_a_draining_server() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    let client = client(&[&a, &b]);
    let held = client.acquire("held").ttl(TTL).await.unwrap();
    let draining = with_reason(Code::Unavailable, "DRAINING", Duration::from_millis(100));
    a.on_acquire(move |_| Do::Fail(draining.clone()));
    assert!(client.acquire("x").ttl(TTL).await.unwrap().is_valid());
    assert_eq!(b.state().acquires[0].attempt, 2);
    b.until("moved", |state| state.streams[0].attached.values().any(|lease| lease.attempt == 2)).await;
    assert!(client.acquire("y").await.unwrap().is_valid());
    assert_eq!((a.state().acquires.len(), b.state().acquires.len()), (2, 2), "new operations go to the next server");
    a.until("the old session ends", |state| state.streams[0].ended).await;
    assert!(held.is_valid());
}

#[tokio::test]
async fn a_wait_stays_on_its_session_when_other_operations_move_to_the_next_server() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    a.on_acquire(|request| match request.lock_name.as_str() {
        "waits" => Do::Late(Duration::from_secs(2), acquired("waits")),
        _ => Do::Fail(Status::unavailable("no store")),
    });
    let client = client(&[&a, &b]);
    let waiting = wait(&client, "waits");
    a.until("queued", |state| state.acquires.len() == 1).await;
    assert!(client.acquire("x").ttl(TTL).await.unwrap().is_valid());
    let lock = waiting.await.unwrap().unwrap();
    assert!(b.state().acquires.iter().all(|request| request.lock_name == "x"));
    let moved = |lease: &v1::LeaseAttachment| lease.lock_name == "waits" && lease.attempt == 2;
    b.until("kept there", |state| state.streams[0].attached.values().any(moved)).await;
    a.until("the old session ends", |state| state.streams[0].ended).await;
    assert!(lock.is_valid());
}

#[tokio::test]
async fn an_acquire_refused_by_a_full_session_is_retried_by_a_unary_call() {
    let fake = Fake::start().await;
    let (full, delay) = ("SESSION_FULL", Duration::from_millis(300));
    let status = with_reason(Code::ResourceExhausted, full, delay);
    fake.on_acquire(move |request| if request.attempt == 1 { Do::Fail(status.clone()) } else { grant(request) });
    let client = client(&[&fake]);
    let asked = fencepost_client::Moment::now();
    let lock = client.acquire("x").ttl(TTL).await.unwrap();
    assert!(fencepost_client::Moment::now().since(asked) >= delay, "the server's retry delay");
    fake.until("kept alive", |state| state.streams[0].attached.len() == 1).await;
    let mut first = true;
    let status = with_reason(Code::ResourceExhausted, full, delay);
    fake.on_release(move |_| match std::mem::take(&mut first) {
        true => Do::Fail(status.clone()),
        false => Do::Answer(released(v1::LeaseEnd::Released)),
    });
    assert!(lock.release().await.unwrap().was_held());
    assert_eq!(fake.state().releases.len(), 2);
    assert_eq!(fake.state().streams[0].detached.len(), 1, "not renewed in between");
}

#[tokio::test]
async fn an_operation_too_large_to_send_is_refused_and_the_session_continues() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let held = client.acquire("held").ttl(TTL).await.unwrap();
    let error = client.acquire("x").metadata("log", "x".repeat(70_000)).wait(BOUND).await.unwrap_err();
    assert!(matches!(&error, AcquireError::Invalid { message, .. } if message.contains("shorten")), "{error:?}");
    // The largest request that fits into one message.
    let large = client.acquire("y").metadata("log", "y".repeat(65_400)).await.unwrap();
    assert!(held.is_valid() && large.is_valid());
    let state = fake.state();
    assert_eq!((state.streams.len(), state.acquires.len(), state.releases.len()), (1, 2, 0));
}

#[tokio::test]
async fn a_grant_counts_from_the_sending_of_its_request() {
    let fake = Fake::start().await;
    let late = Duration::from_millis(800);
    fake.on_acquire(move |_| Do::Late(late, acquired("x")));
    let lock = client(&[&fake]).acquire("x").ttl(TTL).await.unwrap();
    assert!(lock.valid_for() <= TTL * 94 / 100 - late);
}

#[tokio::test]
async fn a_waiter_sees_its_queue_position() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Late(Duration::from_millis(500), acquired("x")));
    let (sender, mut position) = tokio::sync::watch::channel(None);
    let waiting = tokio::spawn(client(&[&fake]).acquire("x").wait(BOUND).queue_position(sender).into_future());
    fake.until("queued", |state| state.acquires.len() == 1).await;
    fake.send_queue_positions(7);
    position.changed().await.unwrap();
    assert_eq!(*position.borrow(), Some(7));
    assert!(waiting.await.unwrap().unwrap().is_valid());
    assert!(position.changed().await.is_err(), "no more updates");
}

#[tokio::test]
async fn a_refused_session_is_reported_at_once() {
    let fake = Fake::start().await;
    fake.state().refuses = Some(Status::permission_denied("unknown client"));
    let error = client(&[&fake]).acquire("x").await.unwrap_err();
    assert!(
        matches!(&error, AcquireError::Refused { source } if source.code() == fencepost_client::Code::PermissionDenied),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_session_outlasts_a_wait_and_ends_when_unused() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Late(Duration::from_secs(7), refused(Outcome::TimedOut)));
    let error = client(&[&fake]).acquire("x").wait(Duration::from_secs(7)).await.unwrap_err();
    assert!(matches!(error, AcquireError::TimedOut { .. }), "{error:?}");
    let client = client(&[&fake]);
    fake.on_acquire(grant);
    client.acquire("x").await.unwrap().release().await.unwrap();
    fake.until("all sessions end", |state| state.streams.iter().all(|stream| stream.ended)).await;
    assert_eq!(fake.state().streams.len(), 2);
    assert!(client.acquire("x").await.unwrap().is_valid(), "the next one opens on demand");
}

#[tokio::test]
async fn acquires_in_flight_are_bounded_and_a_release_never_waits_for_them() {
    const ACQUIRES: usize = 8_000;
    let fake = Fake::start().await;
    fake.on_acquire(|request| if request.lock_name.starts_with("held") { grant(request) } else { Do::Hang });
    let client = client(&[&fake]);
    let held = client.acquire("held").await.unwrap();
    let waits: Vec<_> = (0..ACQUIRES).map(|n| wait(&client, &format!("lock-{n}"))).collect();
    fake.until("all in flight", |state| state.acquires.len() == ACQUIRES + 1).await;
    let late = wait(&client, "held, later");
    held.release().await.unwrap();
    assert_eq!(fake.state().acquires.len(), ACQUIRES + 1, "one more waits for a permit");
    waits[17].abort();
    let lock = tokio::time::timeout(BOUND, late).await.unwrap().unwrap().unwrap();
    assert!(fake.state().acquires.last().unwrap().wait_timeout != wire(BOUND), "the remaining wait");
    assert!(lock.is_valid());
}
