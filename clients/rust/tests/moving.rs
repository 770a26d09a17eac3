//! Leases that move to the next session: their order, and how long the old session continues.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{Do, Fake, TTL, acquired, client, wire};
use fencepost_client::raw::v1::session_response::Message as ServerMessage;
use fencepost_client::{Client, Lock, raw::v1};
use std::time::Duration;

/// Two locks held on a draining server. The next server delays one of the attachments.
async fn half_moved(a: &Fake, b: &Fake) -> (Client, [Lock; 2]) {
    let client = client(&[a, b]);
    let locks = [client.acquire("x").ttl(TTL).await.unwrap(), client.acquire("late").ttl(TTL).await.unwrap()];
    b.update(|state| state.slow_for = Some("late".to_owned()));
    a.tell(&ServerMessage::Draining(v1::Draining { grace: wire(Duration::from_secs(10)) }));
    b.until("one has moved", |state| state.streams.iter().any(|stream| stream.attached.len() == 1)).await;
    (client, locks)
}

#[tokio::test]
async fn the_old_session_continues_until_the_next_one_keeps_every_lease() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    let (_client, locks) = half_moved(&a, &b).await;
    b.until("and is renewed there", |state| !state.streams[0].answers.is_empty()).await;
    let answers = a.state().streams[0].answers.len();
    a.until("a TTL of answers", |state| state.streams[0].answers.len() > answers + 12).await;
    assert!(locks.iter().all(|lock| lock.is_valid()));
    b.catch_up();
    a.until("the old session ends", |state| state.streams[0].ended).await;
    assert!(locks.iter().all(|lock| lock.is_valid()));
    assert_eq!((a.state().streams.len(), b.state().streams.len()), (1, 1));
    assert_eq!(b.state().streams[0].attached.len(), 2);
}

#[tokio::test]
async fn a_silent_old_session_is_closed_whatever_it_still_carries() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    let (_client, locks) = half_moved(&a, &b).await;
    a.update(|state| state.beats = false);
    a.until("the old session ends", |state| state.streams[0].ended).await;
    assert!(locks[0].is_valid());
}

#[tokio::test]
async fn an_old_session_outlasts_a_new_one_that_fails_half_way() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    let (_client, locks) = half_moved(&a, &b).await;
    a.update(|state| state.slow_for = Some("late".to_owned()));
    b.update(|state| state.beats = false);
    a.until("one has moved back", |state| state.streams.get(1).is_some_and(|it| it.attached.len() == 1)).await;
    let answers = a.state().streams[0].answers.len();
    a.until("a TTL of answers", |state| state.streams[0].answers.len() > answers + 12).await;
    assert!(locks.iter().all(|lock| lock.is_valid()));
    a.catch_up();
    a.until("the old session ends", |state| state.streams[0].ended).await;
    assert!(locks.iter().all(|lock| lock.is_valid()));
}

#[tokio::test]
async fn leases_are_attached_in_order_of_expiry() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    a.on_acquire(|request| {
        let lease = v1::Lease { ttl: request.ttl, ..fake::lease(&request.lock_name) };
        Do::Answer(v1::AcquireResponse { lease: Some(lease), ..acquired("") })
    });
    a.update(|state| state.beats = false);
    let client = client(&[&a, &b]);
    let mut locks = Vec::new();
    for seconds in [60, 20, 40, 50, 30, 70, 10] {
        locks.push(client.acquire(seconds.to_string()).ttl(Duration::from_secs(seconds)).await.unwrap());
    }
    a.end_streams();
    b.until("moved", |state| state.streams.iter().any(|stream| stream.all_attached.len() == locks.len())).await;
    let state = b.state();
    let order: Vec<_> = state.streams[0].all_attached.iter().map(|lease| lease.lock_name.as_str()).collect();
    assert_eq!(order, ["10", "20", "30", "40", "50", "60", "70"]);
}
