//! Acquiring several locks: their order, their one wait, and what is given back.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{BOUND, Do, Fake, acquired, client, refused};
use fencepost_client::{AcquireAllError, AcquireError, LossCause, Mode, SetItem, raw::v1};
use std::future::IntoFuture as _;
use std::time::Duration;
use tokio::time::timeout;
use v1::{acquire_response::Outcome, session_response::Message};

/// The names that were asked for, in this order.
fn asked(fake: &Fake) -> Vec<String> {
    fake.state().acquires.iter().map(|request| request.lock_name.clone()).collect()
}

/// The names that were released, in this order.
fn released(fake: &Fake) -> Vec<String> {
    fake.state().releases.iter().map(|request| request.lock_name.clone()).collect()
}

/// Reports the end of a lease.
fn lose(fake: &Fake, name: &str, end: v1::LeaseEnd) {
    let attached = |state: &fake::State| {
        let mut leases = state.streams.iter().flat_map(|stream| &stream.attached);
        leases.find(|(_, lease)| lease.lock_name == name).map(|(handle, _)| *handle)
    };
    let handle = attached(&fake.state()).unwrap();
    fake.tell(&Message::Lost(v1::Lost { handle, end: end.into(), successor_token: 0 }));
}

#[tokio::test]
async fn locks_are_acquired_in_the_order_of_their_bytes_and_released_in_reverse() {
    let fake = Fake::start().await;
    let names = ["\u{10000}", "b", "\u{ff5e}", "a", "b"];
    let locks = client(&[&fake]).acquire_all(names).await.unwrap();
    assert_eq!(asked(&fake), ["a", "b", "\u{ff5e}", "\u{10000}"]);
    assert_eq!(locks.names().collect::<Vec<_>>(), asked(&fake));
    assert!(locks.is_valid() && !locks.valid_for().is_zero());
    assert_eq!((locks.token("a"), locks.token("c")), (Some(41), None));
    assert!(locks.get("b").unwrap().is_valid());
    assert!(locks.release().await.unwrap().was_held());
    assert_eq!(released(&fake), ["\u{10000}", "\u{ff5e}", "b", "a"]);
}

#[tokio::test]
async fn dropped_locks_are_released_in_reverse() {
    let (fake, names) = (Fake::start().await, ["a", "b", "c"]);
    let client = client(&[&fake]);
    drop(client.acquire_all(names).await.unwrap());
    client.flush().await;
    assert_eq!(released(&fake), ["c", "b", "a"]);
}

#[tokio::test]
async fn the_number_of_names_is_bounded() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let none = client.acquire_all(Vec::<String>::new()).await.unwrap_err();
    assert!(matches!(none, AcquireAllError::Names { count: 0 }), "{none}");
    let many = client.try_all((0..65).map(|it| it.to_string())).await.unwrap_err();
    assert_eq!(many.to_string(), "a set of locks has 1 to 64 different names, not 65");
    assert!(asked(&fake).is_empty());
}

#[tokio::test]
async fn each_lock_is_asked_for_in_its_mode() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let items = [SetItem::exclusive("tenants/7/orders/42"), SetItem::shared("tenants/7"), SetItem::shared("tenants")];
    let locks = client.acquire_all(items).await.unwrap();
    let of_requests = |state: &fake::State| state.acquires.iter().map(v1::AcquireRequest::mode).collect::<Vec<_>>();
    let (shared, exclusive) = (v1::LockMode::Shared, v1::LockMode::Unspecified);
    assert_eq!(of_requests(&fake.state()), [shared, shared, exclusive]);
    assert_eq!(asked(&fake), ["tenants", "tenants/7", "tenants/7/orders/42"]);
    let modes: Vec<_> = locks.iter().map(|lock| lock.mode()).collect();
    assert_eq!(modes, [Mode::Shared, Mode::Shared, Mode::Exclusive]);
}

#[tokio::test]
async fn a_name_in_two_modes_is_refused_and_nothing_is_sent() {
    let fake = Fake::start().await;
    let items = [SetItem::from("b"), SetItem::shared("a"), SetItem::from("a")];
    let error = client(&[&fake]).try_all(items).await.unwrap_err();
    assert_eq!(error.to_string(), "a cannot be both exclusive and shared in one set of locks");
    assert!(asked(&fake).is_empty());
}

#[tokio::test]
async fn one_that_is_held_gives_back_the_others() {
    let fake = Fake::start().await;
    fake.on_acquire(|request| match request.lock_name.as_str() {
        "c" => Do::Answer(refused(Outcome::Contended)),
        name => Do::Answer(acquired(name)),
    });
    let error = client(&[&fake]).acquire_all(["c", "b", "a", "d"]).await.unwrap_err();
    let text = error.to_string();
    let AcquireAllError::NotAcquired { name, count: 4, cause, given_back } = error else { unreachable!("{text}") };
    assert!(matches!(cause, AcquireError::Contended { .. }) && name == "c", "{text}");
    assert_eq!(given_back, ["b", "a"]);
    assert!(text.starts_with("the 4 locks were not acquired, because of c: c is "), "{text}");
    assert!(text.ends_with("; given back: b, a"), "{text}");
    assert_eq!((asked(&fake), released(&fake)), (ABC.map(str::to_owned).to_vec(), given_back));
}

const ABC: [&str; 3] = ["a", "b", "c"];

#[tokio::test]
async fn all_share_one_wait() {
    let fake = Fake::start().await;
    let wait = Duration::from_secs(30);
    let locks = client(&[&fake]).acquire_all(ABC).wait(wait).await.unwrap();
    let waits: Vec<Duration> =
        fake.state().acquires.iter().map(|it| it.wait_timeout.unwrap().try_into().unwrap()).collect();
    assert!(waits[0] <= wait && waits.is_sorted_by(|before, after| before > after), "{waits:?}");
    drop(locks);
}

#[tokio::test]
async fn a_lock_whose_turn_comes_after_the_wait_has_timed_out() {
    let fake = Fake::start().await;
    fake.on_acquire(|request| match request.lock_name.as_str() {
        "a" => {
            // The wait is over when this is answered.
            std::thread::sleep(Duration::from_millis(30));
            Do::Answer(acquired("a"))
        }
        _ => Do::Answer(refused(Outcome::Contended)),
    });
    let error = client(&[&fake]).acquire_all(ABC).wait(Duration::from_millis(20)).await.unwrap_err();
    let late = matches!(&error, AcquireAllError::NotAcquired { cause: AcquireError::TimedOut { .. }, .. });
    assert!(late, "{error}");
    assert!(fake.state().acquires[1].wait_timeout.is_none_or(|wait| wait.seconds == 0 && wait.nanos == 0));
}

#[tokio::test]
async fn dropped_while_it_waits_it_leaves_nothing() {
    let fake = Fake::start().await;
    fake.on_acquire(|request| match request.lock_name.as_str() {
        "c" if request.attempt == 1 => Do::Hang,
        "c" => Do::Answer(refused(Outcome::TimedOut)),
        name => Do::Answer(acquired(name)),
    });
    let client = client(&[&fake]);
    let waiting = tokio::spawn(client.acquire_all(ABC).wait(BOUND).into_future());
    fake.until("c is asked for", |state| state.acquires.len() == 3).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    client.flush().await;
    assert_eq!(released(&fake), ["b", "a"]);
}

#[tokio::test]
async fn a_loss_while_a_later_one_is_waited_for_ends_the_call() {
    let fake = Fake::start().await;
    fake.on_acquire(|request| match request.lock_name.as_str() {
        "c" if request.attempt == 1 => Do::Hang,
        "c" => Do::Answer(refused(Outcome::TimedOut)),
        name => Do::Answer(acquired(name)),
    });
    let client = client(&[&fake]);
    let waiting = tokio::spawn(client.acquire_all(ABC).wait(Duration::from_secs(600)).into_future());
    fake.until("c is asked for", |state| state.acquires.len() == 3).await;
    lose(&fake, "a", v1::LeaseEnd::Revoked);
    let error = timeout(BOUND, waiting).await.unwrap().unwrap().unwrap_err();
    let text = error.to_string();
    let AcquireAllError::Lost { lost, given_back, .. } = error else { unreachable!("{text}") };
    assert_eq!((lost.name.as_str(), lost.cause, given_back), ("a", LossCause::Revoked, vec!["b".to_owned()]));
    assert_eq!(released(&fake), ["b"]);
}

#[tokio::test]
async fn tries_hold_nothing_while_they_wait() {
    let fake = Fake::start().await;
    let mut tries = 0;
    fake.on_acquire(move |request| {
        tries += u32::from(request.lock_name == "c");
        match request.lock_name.as_str() {
            "c" if tries < 3 => Do::Answer(refused(Outcome::Contended)),
            name => Do::Answer(acquired(name)),
        }
    });
    let locks = client(&[&fake]).try_all(ABC).wait(BOUND).await.unwrap();
    assert_eq!(asked(&fake), [ABC; 3].concat());
    assert_eq!(released(&fake), ["b", "a", "b", "a"]);
    let waits = fake.state().acquires.iter().any(|it| it.wait_timeout.is_some_and(|wait| wait.nanos > 0));
    assert!(!waits, "no try waits");
    assert!(locks.is_valid());
}

#[tokio::test]
async fn tries_end_with_the_wait() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Answer(refused(Outcome::Contended)));
    let error = client(&[&fake]).try_all(ABC).wait(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(&error, AcquireAllError::NotAcquired { cause: AcquireError::Contended { .. }, .. }), "{error}");
    assert!(asked(&fake).len() > 1);
}

#[tokio::test]
async fn a_set_is_lost_when_one_lock_is_and_reports_it_at_its_release() {
    let fake = Fake::start().await;
    let locks = client(&[&fake]).acquire_all(ABC).await.unwrap();
    let lost = tokio::spawn(locks.lost());
    lose(&fake, "b", v1::LeaseEnd::Expired);
    let lost = timeout(BOUND, lost).await.unwrap().unwrap();
    assert_eq!((lost.name.as_str(), lost.cause), ("b", LossCause::Expired));
    assert!(!locks.is_valid() && locks.valid_for().is_zero());
    assert!(locks.get("a").unwrap().is_valid(), "until the work has stopped");
    let end = locks.release().await.unwrap();
    assert_eq!(end.end, Some(fencepost_client::LeaseEnd::Expired));
    assert_eq!(released(&fake), ["c", "a"]);
}
