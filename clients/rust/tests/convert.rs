//! Conversions of a held lock: what is sent, repeated, and known afterwards.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{Do, Fake, acquired, builder, client};
use fencepost_client::{Client, ConvertError, Lease, LossCause, Mode, Moment, raw::v1};
use std::time::Duration;
use tonic::Status;
use v1::convert_response::Outcome;

fn answer(outcome: Outcome, token: u64) -> v1::ConvertResponse {
    v1::ConvertResponse { outcome: outcome.into(), fencing_token: token, ..Default::default() }
}

/// The modes and tokens that were sent.
fn sent(fake: &Fake) -> Vec<(v1::LockMode, u64)> {
    fake.state().converts.iter().map(|request| (request.mode(), request.fencing_token)).collect()
}

#[tokio::test]
async fn the_mode_of_a_lock_is_that_of_its_lease_or_else_that_of_its_request() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    assert_eq!(client.acquire("a").await.unwrap().mode(), Mode::Exclusive);
    assert_eq!(client.acquire("b").shared().await.unwrap().mode(), Mode::Shared);
    assert_eq!(client.acquire("c").semaphore(2).await.unwrap().mode(), Mode::Semaphore);
    // It was converted since a process that died had sent the same request.
    fake.on_acquire(|request| {
        let mut answer = acquired(&request.lock_name);
        answer.lease.as_mut().unwrap().set_mode(v1::LockMode::Shared);
        Do::Answer(answer)
    });
    let lease = client.acquire("d").await.unwrap().into_lease();
    assert_eq!(lease.mode, Some(Mode::Shared));
    assert_eq!(client.keep(lease, Moment::now(), Duration::ZERO).mode(), Mode::Shared);
    let older = Lease::from(fake::lease("e"));
    assert_eq!(older.mode, None);
    let permit = Lease { permits: 2, ..older.clone() };
    for (lease, mode) in [(older, Mode::Exclusive), (permit, Mode::Semaphore)] {
        assert_eq!(client.keep(lease, Moment::now(), Duration::ZERO).mode(), mode);
    }
}

#[tokio::test]
async fn a_conversion_changes_the_mode_and_the_token_for_all_handles() {
    let fake = Fake::start().await;
    let mut lock = client(&[&fake]).acquire("x").await.unwrap();
    let held = lock.held();
    fake.on_convert(|_| Do::Answer(answer(Outcome::Converted, 41)));
    lock.downgrade().await.unwrap();
    assert_eq!((held.mode(), held.token()), (Mode::Shared, 41));
    fake.on_convert(|_| Do::Answer(answer(Outcome::Contended, 0)));
    assert!(!lock.try_upgrade().await.unwrap());
    assert_eq!((held.mode(), held.token()), (Mode::Shared, 41));
    fake.on_convert(|_| Do::Answer(answer(Outcome::Converted, 43)));
    assert!(lock.try_upgrade().await.unwrap());
    assert_eq!((held.mode(), held.token()), (Mode::Exclusive, 43));
    let (shared, exclusive) = (v1::LockMode::Shared, v1::LockMode::Exclusive);
    assert_eq!(sent(&fake), [(shared, 41), (exclusive, 41), (exclusive, 41)]);
}

#[tokio::test]
async fn a_conversion_whose_answer_was_lost_is_repeated_with_the_same_token() {
    let fake = Fake::start().await;
    let mut lock = client(&[&fake]).acquire("x").shared().await.unwrap();
    let mut copies = 0;
    fake.on_convert(move |_| {
        copies += 1;
        if copies == 1 { Do::Fail(Status::unavailable("lost")) } else { Do::Answer(answer(Outcome::Converted, 43)) }
    });
    assert!(lock.try_upgrade().await.unwrap());
    assert_eq!(sent(&fake), [(v1::LockMode::Exclusive, 41); 2]);
    assert_eq!(lock.token(), 43);
}

async fn held(fake: &Fake) -> (Client, fencepost_client::Lock) {
    let client = builder(&[fake]).retry_for(Duration::from_millis(100)).build().unwrap();
    let lock = client.acquire("x").await.unwrap();
    (client, lock)
}

#[tokio::test]
async fn an_outcome_that_stays_unknown_is_told_and_the_lock_is_still_held() {
    let fake = Fake::start().await;
    let (_client, mut lock) = held(&fake).await;
    fake.on_convert(|_| Do::Fail(Status::unavailable("away")));
    let Err(ConvertError::Call(error)) = lock.downgrade().await else { panic!("nobody answered") };
    assert!(error.is_outcome_unknown(), "{error:?}");
    assert!(lock.is_valid() && lock.mode() == Mode::Exclusive);
}

#[tokio::test]
async fn a_lease_that_has_ended_is_lost_and_not_converted_again() {
    let fake = Fake::start().await;
    let (_client, mut lock) = held(&fake).await;
    fake.on_convert(|_| {
        let (end, successor_token) = (v1::LeaseEnd::Revoked.into(), 44);
        Do::Answer(v1::ConvertResponse { end, successor_token, ..answer(Outcome::Lost, 0) })
    });
    for _ in 0..2 {
        let Err(ConvertError::Lost(lost)) = lock.downgrade().await else { panic!("it has ended") };
        assert_eq!((lost.cause, lost.successor_token), (LossCause::Revoked, Some(44)));
    }
    assert_eq!((lock.lost().await.cause, sent(&fake).len()), (LossCause::Revoked, 1));
}

#[tokio::test]
async fn a_conversion_ends_with_the_validity_of_its_lease() {
    let fake = Fake::start().await;
    fake.update(|state| (state.beats, state.renews_leases) = (false, false));
    fake.on_acquire(|request| {
        let mut answer = acquired(&request.lock_name);
        answer.lease.as_mut().unwrap().ttl = fake::wire(Duration::from_millis(300));
        Do::Answer(answer)
    });
    for script in [|| Do::Hang, || Do::Fail(Status::unavailable("away"))] {
        fake.on_convert(move |_| script());
        let mut lock = client(&[&fake]).acquire("x").await.unwrap();
        let Err(ConvertError::Lost(lost)) = lock.try_upgrade().await else { panic!("the lease is over") };
        assert_eq!(lost.cause, LossCause::Silence);
        let repeats = sent(&fake).len();
        assert!(repeats > 0 && !lock.is_valid());
        // Not a second is over since the lock was acquired: the time for repeats is far longer.
        assert!(matches!(lock.downgrade().await, Err(ConvertError::Lost(_))));
        assert_eq!(sent(&fake).len(), repeats);
    }
}
