//! Keeping leases alive, and detecting that one is lost.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{BOUND, Do, Fake, TTL, builder, client, wire};
use fencepost_client::raw::v1::session_response::Message as ServerMessage;
use fencepost_client::{Client, Lock, LockLost, LossCause, Moment, Status, raw::v1};
use std::time::Duration;

/// An attached lock.
async fn kept(client: &Client, fake: &Fake) -> Lock {
    let lock = client.acquire("x").ttl(TTL).await.unwrap();
    fake.until("attached", |state| state.streams.iter().any(|stream| !stream.attached.is_empty())).await;
    lock
}

async fn lost_within_bound(lock: &Lock) -> LockLost {
    tokio::time::timeout(BOUND, lock.lost()).await.expect("never lost")
}

fn draining() -> ServerMessage {
    ServerMessage::Draining(v1::Draining { grace: wire(Duration::from_secs(10)) })
}

#[tokio::test]
async fn beats_are_answered_and_the_lease_outlives_its_ttl() {
    let fake = Fake::start().await;
    let lock = kept(&client(&[&fake]), &fake).await;
    // Beats come at a twelfth of the TTL.
    fake.until("two TTLs of answers", |state| state.streams[0].answers.len() > 24).await;
    assert!(lock.is_valid());
    let state = fake.state();
    assert_eq!(state.streams.len(), 1);
    assert!(state.streams[0].answers.is_sorted(), "answers never go backwards");
    assert_eq!(state.streams[0].attached.values().next().unwrap().attempt, 1);
}

#[tokio::test]
async fn one_stream_carries_all_leases() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let mut locks = Vec::new();
    for n in 0..100 {
        locks.push(client.acquire(format!("lock-{n}")).await.unwrap());
    }
    fake.until("all attached", |state| state.streams.iter().any(|stream| stream.attached.len() == 100)).await;
    assert_eq!(fake.state().streams.len(), 1);
    drop(locks);
    fake.until("all detached", |state| state.streams[0].attached.is_empty() && state.releases.len() == 100).await;
}

#[tokio::test]
async fn silence_means_at_risk_and_then_lost_by_the_local_clock() {
    let fake = Fake::start().await;
    let lock = kept(&client(&[&fake]), &fake).await;
    let mut changes = lock.status_changes();
    let before = Moment::now();
    {
        let mut state = fake.state();
        (state.beats, state.renews_leases) = (false, false);
    }
    let at_risk = tokio::time::timeout(BOUND, changes.next()).await.unwrap();
    let Some(Status::AtRisk { valid_until }) = at_risk else { panic!("{at_risk:?}") };
    assert!(valid_until.since(before) < TTL, "before the server can have granted it to another");
    assert!(lock.is_valid(), "it stays valid until then");
    let lost = lost_within_bound(&lock).await;
    assert_eq!(lost, lock.lost().await, "repeatable");
    assert_eq!((lost.cause, lost.successor_token), (LossCause::Silence, None));
    assert!(Moment::now() >= valid_until);
    assert!(!lock.is_valid() && lock.valid_for().is_zero());
    assert_eq!(changes.next().await, Some(Status::Lost(lost)));
    assert_eq!(changes.next().await, None);
    fake.until("detached", |state| state.streams.last().unwrap().attached.is_empty()).await;
}

#[tokio::test]
async fn the_server_reports_a_loss() {
    let fake = Fake::start().await;
    let lock = kept(&client(&[&fake]), &fake).await;
    let revoked = v1::LeaseEnd::Revoked.into();
    fake.tell_each(|handle| ServerMessage::Lost(v1::Lost { handle, end: revoked, successor_token: 42 }));
    let lost = lost_within_bound(&lock).await;
    assert_eq!((lost.cause, lost.successor_token), (LossCause::Revoked, Some(42)));
    assert!(!lock.is_valid());
}

#[tokio::test]
async fn the_server_reports_at_risk_and_then_renews_again() {
    let fake = Fake::start().await;
    let lock = kept(&client(&[&fake]), &fake).await;
    let mut changes = lock.status_changes();
    fake.state().renews_leases = false;
    fake.tell_each(|handle| ServerMessage::AtRisk(v1::AtRisk { handles: vec![handle] }));
    let at_risk = tokio::time::timeout(BOUND, changes.next()).await.unwrap();
    assert!(matches!(at_risk, Some(Status::AtRisk { valid_until }) if valid_until > Moment::now()), "{at_risk:?}");
    fake.state().renews_leases = true;
    assert_eq!(tokio::time::timeout(BOUND, changes.next()).await.unwrap(), Some(Status::Held));
    assert_eq!(fake.state().streams.len(), 1);
}

#[tokio::test]
async fn an_ended_stream_is_replaced_on_the_next_server_with_a_higher_attempt() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    let lock = kept(&client(&[&a, &b]), &a).await;
    a.end_streams();
    b.until("attached there", |state| state.streams.iter().any(|stream| !stream.attached.is_empty())).await;
    assert_eq!(b.state().streams[0].all_attached[0].attempt, 2);
    assert_eq!(b.state().streams[0].all_attached[0].lease_id, fake::lease_id("x"));
    b.until("a TTL of answers", |state| state.streams[0].answers.len() > 12).await;
    assert!(lock.is_valid());
}

#[tokio::test]
async fn a_lease_that_ended_while_the_stream_was_down_is_lost_and_not_acquired_again() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    let lock = kept(&client(&[&a, &b]), &a).await;
    b.state().over = true;
    a.end_streams();
    let lost = lost_within_bound(&lock).await;
    assert_eq!((lost.cause, lost.successor_token), (LossCause::Expired, Some(42)));
    assert!(b.state().acquires.is_empty());
}

#[tokio::test]
async fn leases_move_from_a_silent_server_to_the_next() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    let lock = kept(&client(&[&a, &b]), &a).await;
    {
        let mut state = a.state();
        (state.beats, state.renews_leases) = (false, false);
    }
    b.until("attached there", |state| state.streams.iter().any(|stream| !stream.attached.is_empty())).await;
    b.until("a TTL of answers", |state| state.streams[0].answers.len() > 12).await;
    assert!(lock.is_valid());
    a.until("the silent stream is closed", |state| state.streams.iter().all(|stream| stream.ended)).await;
}

#[tokio::test]
async fn leases_move_from_a_session_with_beats_but_no_renewals_to_the_next_server() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    let lock = kept(&client(&[&a, &b]), &a).await;
    a.state().renews_leases = false;
    b.until("a TTL of answers", |state| state.streams.first().is_some_and(|stream| stream.answers.len() > 12)).await;
    assert!(lock.is_valid());
}

#[tokio::test]
async fn with_one_server_such_a_session_is_reopened() {
    let fake = Fake::start().await;
    let lock = kept(&client(&[&fake]), &fake).await;
    fake.state().renews_leases = false;
    fake.until("reopened", |state| state.streams.len() > 1).await;
    fake.state().renews_leases = true;
    fake.until("kept there", |state| state.streams.last().unwrap().answers.len() > 12).await;
    assert!(lock.is_valid());
}

#[tokio::test]
async fn leases_move_from_a_draining_server_without_loss() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    let lock = kept(&client(&[&a, &b]), &a).await;
    a.tell(&draining());
    b.until("attached there", |state| state.streams.iter().any(|stream| !stream.attached.is_empty())).await;
    a.until("the old stream ends", |state| state.streams[0].ended).await;
    assert_eq!(lock.status(), Status::Held);
}

#[tokio::test]
async fn the_stream_of_the_only_server_continues_while_it_drains_until_the_next_one_works() {
    let fake = Fake::start().await;
    let lock = kept(&client(&[&fake]), &fake).await;
    // New streams open, but attach nothing.
    fake.state().renews_leases = false;
    fake.tell(&draining());
    fake.until("a new stream", |state| state.streams.len() > 1).await;
    assert!(!fake.state().streams[0].ended, "the old one continues");
    fake.state().renews_leases = true;
    fake.until("and ends when the new one works", |state| state.streams[0].ended).await;
    assert!(lock.is_valid());
}

#[tokio::test]
async fn attached_elsewhere_is_corrected_once_on_each_session_and_then_accepted() {
    let fake = Fake::start().await;
    let lock = kept(&client(&[&fake]), &fake).await;
    let elsewhere = v1::detached::Reason::AttachedElsewhere.into();
    let detach = |handle| ServerMessage::Detached(v1::Detached { handle, reason: elsewhere });
    fake.tell_each(detach);
    fake.until("attached again", |state| state.streams[0].all_attached.len() == 2).await;
    fake.end_streams();
    fake.until("moved", |state| state.streams.len() == 2 && !state.streams[1].attached.is_empty()).await;
    fake.tell_each(detach);
    fake.until("attached again there", |state| state.streams[1].all_attached.len() == 2).await;
    let attempts = |state: &fake::State| -> Vec<u32> {
        state.streams.iter().flat_map(|stream| &stream.all_attached).map(|lease| lease.attempt).collect()
    };
    assert_eq!(attempts(&fake.state()), [1, 2, 3, 4]);
    let mut changes = lock.status_changes();
    fake.state().renews_leases = false;
    fake.tell_each(detach);
    let at_risk = tokio::time::timeout(BOUND, changes.next()).await.unwrap();
    assert!(matches!(at_risk, Some(Status::AtRisk { .. })), "{at_risk:?}");
    // It was given up for good: the next session does not attach it either.
    fake.end_streams();
    fake.until("a third session", |state| state.streams.len() == 3).await;
    let lost = lost_within_bound(&lock).await;
    assert_eq!(lost.cause, LossCause::Silence);
    assert_eq!(attempts(&fake.state()), [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_lease_that_does_not_fit_on_the_stream_is_renewed_by_unary_calls() {
    let fake = Fake::start().await;
    fake.state().full = true;
    let client = client(&[&fake]);
    let lock = client.acquire("x").ttl(TTL).await.unwrap();
    fake.until("a TTL of renewals", |state| state.renews.len() > 4).await;
    assert!(lock.is_valid());
    lock.release().await.unwrap();
    let renewals = fake.state().renews.len();
    fake.until("the stream continues", |state| state.streams[0].answers.len() > 24).await;
    assert!(fake.state().renews.len() <= renewals + 1, "at most one was in flight");
}

#[tokio::test]
async fn a_session_is_not_judged_silent_by_the_ttl_of_a_lease_it_does_not_carry() {
    let fake = Fake::start().await;
    fake.on_acquire(|request| {
        let lease = v1::Lease { ttl: request.ttl, ..fake::lease(&request.lock_name) };
        Do::Answer(v1::AcquireResponse { lease: Some(lease), ..fake::acquired("") })
    });
    let client = client(&[&fake]);
    let long = client.acquire("long").ttl(TTL * 15).await.unwrap();
    fake.until("it beats", |state| !state.streams[0].answers.is_empty()).await;
    // The session is full and keeps the pace of its one lease.
    fake.update(|state| (state.full, state.beats) = (true, false));
    let short = client.acquire("short").ttl(TTL).await.unwrap();
    fake.until("a TTL of renewals", |state| state.renews.len() > 4).await;
    assert!(long.is_valid() && short.is_valid());
    assert_eq!(fake.state().streams.len(), 1);
}

#[tokio::test]
async fn the_session_ends_with_the_last_lock_after_its_client() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let lock = kept(&client, &fake).await;
    drop(client);
    fake.until("a lock keeps its stream", |state| state.streams[0].answers.len() > 3).await;
    drop(lock);
    fake.until("released, and the stream ended", |state| state.releases.len() == 1 && state.streams[0].ended).await;
}

#[tokio::test]
async fn a_lease_that_is_handed_over_is_detached_and_not_released() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let lock = kept(&client, &fake).await;
    let held = lock.held();
    let lease = lock.into_lease();
    assert_eq!((lease.lease_id.as_str(), lease.token), (fake::lease_id("x").as_str(), 41));
    assert_eq!(held.lost().await.cause, LossCause::Detached);
    fake.until("detached", |state| state.streams[0].detached.len() == 1).await;
    client.flush().await;
    assert!(fake.state().releases.is_empty());
    let lock = client.keep(lease, Moment::now(), Duration::ZERO);
    fake.until("attached again", |state| state.streams[0].all_attached.len() == 2).await;
    assert!(lock.is_valid());
}

#[tokio::test]
async fn an_expired_lease_is_lost_from_the_start() {
    let fake = Fake::start().await;
    let client = builder(&[&fake]).build().unwrap();
    let lock = client.keep(fake::lease("x").into(), Moment::now().minus(TTL), Duration::ZERO);
    assert!(!lock.is_valid());
    assert_eq!(lock.lost().await.cause, LossCause::Silence);
}
