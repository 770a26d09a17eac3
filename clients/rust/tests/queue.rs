//! The queue of a lock: who waits in it, how long it may be, and what a holder is told of it.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{BOUND, Do, Fake, client, refused, wire};
use fencepost_client::{AcquireAllError, AcquireError, Mode, raw::v1};
use std::time::Duration;
use tokio::time::timeout;
use v1::{acquire_response::Outcome, session_response::Message};

#[tokio::test]
async fn the_options_of_the_queue_are_sent() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let lock = client.acquire("a").owner("job 7").max_waiters(3).tell_when_wanted().await.unwrap();
    let locks = client.acquire_all(["b", "c"]).owner("job 7").max_waiters(3).tell_when_wanted().await.unwrap();
    for request in &fake.state().acquires {
        assert_eq!((request.owner.as_str(), request.max_waiters, request.tell_when_wanted), ("job 7", 3, true));
    }
    drop((lock, locks));
}

#[tokio::test]
async fn those_who_wait_are_read_over_all_pages() {
    let fake = Fake::start().await;
    let waiter = |id: &str| v1::LockWaiter { waiter_id: id.to_owned(), ..Default::default() };
    let first = v1::LockWaiter {
        holder: "a test".to_owned(),
        owner: "job 7".to_owned(),
        identity: "alice".to_owned(),
        mode: v1::LockMode::Semaphore.into(),
        permits: 2,
        waiting_since: wire(Duration::from_secs(3)),
        skipped: true,
        ..waiter("1")
    };
    fake.update(|state| state.waiters = vec![vec![first, waiter("2")], vec![], vec![waiter("3")]]);
    let waiters = client(&[&fake]).waiters("x").await.unwrap();
    assert_eq!(waiters.iter().map(|waiter| waiter.id.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
    let first = &waiters[0];
    assert_eq!((first.label.as_str(), first.owner.as_str()), ("a test", "job 7"));
    assert_eq!((first.identity.as_deref(), first.mode, first.permits), (Some("alice"), Mode::Semaphore, 2));
    assert_eq!((first.waiting_since, first.skipped), (Duration::from_secs(3), true));
    assert_eq!((waiters[1].identity.as_deref(), waiters[1].mode), (None, Mode::Exclusive));
}

#[tokio::test]
async fn a_queue_that_is_long_enough_refuses_one_that_would_wait() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    fake.on_acquire(|_| Do::Answer(refused(Outcome::Contended)));
    let error = client.acquire("x").max_waiters(2).wait(BOUND).await.unwrap_err();
    assert!(matches!(error, AcquireError::Contended { waiters: 2, .. }), "{error}");
    let error = client.acquire_all(["x", "y"]).max_waiters(2).wait(BOUND).await.unwrap_err();
    let contended = matches!(&error, AcquireAllError::NotAcquired { cause: AcquireError::Contended { .. }, .. });
    assert!(contended, "{error}");
}

#[tokio::test]
async fn a_holder_is_told_that_it_is_wanted() {
    let fake = Fake::start().await;
    let lock = client(&[&fake]).acquire("x").tell_when_wanted().await.unwrap();
    let (held, wanted) = (lock.held(), tokio::spawn(lock.wanted()));
    assert!(!held.is_wanted());
    fake.tell_each(|handle| Message::Wanted(v1::Wanted { handle, mode: v1::LockMode::Shared.into() }));
    assert_eq!(timeout(BOUND, wanted).await.unwrap().unwrap(), Some(Mode::Shared));
    assert!(held.is_wanted() && held.is_valid());
    // Also who asks later.
    assert_eq!(timeout(BOUND, held.wanted()).await.unwrap(), Some(Mode::Shared));
    lock.release().await.unwrap();
    assert_eq!(timeout(BOUND, held.wanted()).await.unwrap(), None);
}

#[tokio::test]
async fn a_lock_that_is_lost_is_not_wanted() {
    let fake = Fake::start().await;
    let lock = client(&[&fake]).acquire("x").tell_when_wanted().await.unwrap();
    let wanted = tokio::spawn(lock.wanted());
    let end = v1::LeaseEnd::Revoked.into();
    fake.tell_each(|handle| Message::Lost(v1::Lost { handle, end, successor_token: 0 }));
    assert_eq!(timeout(BOUND, wanted).await.unwrap().unwrap(), None);
    assert!(!lock.is_wanted());
}
