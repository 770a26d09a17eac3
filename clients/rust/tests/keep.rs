//! Keeping a lease that was acquired by a raw call or by another process.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{BOUND, Fake, TTL, client};
use fencepost_client::{LossCause, Moment, raw::v1};
use std::time::Duration;

#[tokio::test]
async fn a_malformed_lease_is_lost_from_the_start_and_harms_no_other() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let good = client.acquire("good").ttl(TTL).await.unwrap();
    let sound = fake::lease("x");
    let bad = [
        v1::Lease { lock_name: String::new(), ..sound.clone() },
        v1::Lease { lock_name: "x".repeat(513), ..sound.clone() },
        v1::Lease { lock_name: "x\n".to_owned(), ..sound.clone() },
        v1::Lease { lease_id: String::new(), ..sound.clone() },
        v1::Lease { lease_id: "secret".to_owned(), ttl: None, ..sound },
    ];
    let locks = bad.map(|lease| client.keep(lease.into(), Moment::now(), Duration::ZERO));
    for lock in &locks {
        assert!(!lock.is_valid());
        assert_eq!(lock.lost().await.cause, LossCause::Invalid);
    }
    let answers = fake.state().streams[0].answers.len();
    fake.until("a TTL of answers", |state| state.streams[0].answers.len() > answers + 12).await;
    drop(locks);
    client.flush().await;
    assert!(good.is_valid());
    let state = fake.state();
    assert_eq!((state.streams.len(), state.streams[0].all_attached.len()), (1, 1));
    assert!(state.releases.is_empty(), "there is nothing to release");
}

#[tokio::test]
async fn a_lease_is_kept_although_its_previous_process_used_higher_attempt_numbers() {
    // The previous process attached the lease seven times, or had jumped past others itself.
    for (counted, attempts) in [(7, 2), ((1 << 16) + 9, 3), ((1 << 18) + 9, 4)] {
        let fake = Fake::start().await;
        let lease = fake::lease("x");
        fake.update(|state| state.kept.insert(lease.lease_id.clone(), (counted, usize::MAX, 1)));
        let lock = client(&[&fake]).keep(lease.into(), Moment::now(), Duration::ZERO);
        fake.until("kept", |state| state.streams.iter().any(|stream| !stream.attached.is_empty())).await;
        fake.until("a TTL of answers", |state| state.streams[0].answers.len() > 12).await;
        assert!(lock.is_valid());
        assert_eq!(fake.state().streams[0].all_attached.len(), attempts);
    }
}

#[tokio::test]
async fn the_newest_of_two_processes_keeps_a_lease_whatever_the_attempt_numbers() {
    let fake = Fake::start().await;
    let (first_client, second_client) = (client(&[&fake]), client(&[&fake]));
    let first = first_client.acquire("x").ttl(TTL).await.unwrap();
    for again in 1..4 {
        fake.end_streams();
        fake.until("attached again", |state| state.streams.get(again).is_some_and(|it| !it.attached.is_empty())).await;
    }
    assert_eq!(fake.state().streams[3].all_attached[0].attempt, 4);
    let second = second_client.keep(fake::lease("x").into(), Moment::now(), Duration::ZERO);
    fake.until("the first one tries once", |state| state.streams[3].all_attached.len() == 2).await;
    let lost = tokio::time::timeout(BOUND, first.lost()).await.unwrap();
    assert_eq!(lost.cause, LossCause::Silence);
    assert!(second.is_valid());
    let state = fake.state();
    assert_eq!((state.streams[3].attached.len(), state.streams[4].attached.len()), (0, 1));
    assert_eq!(state.streams[4].all_attached.len(), 2, "refused once");
}

#[tokio::test]
async fn a_returning_process_does_not_compete_with_one_that_received_the_lease_since() {
    let fake = Fake::start().await;
    let lock = client(&[&fake]).acquire("x").ttl(TTL).await.unwrap();
    fake.update(|state| state.kept.insert(fake::lease_id("x"), (9, usize::MAX, 1)));
    fake.end_streams();
    let lost = tokio::time::timeout(BOUND, lock.lost()).await.unwrap();
    assert_eq!(lost.cause, LossCause::Silence);
    let attempts: Vec<_> = fake.state().streams[1].all_attached.iter().map(|lease| lease.attempt).collect();
    assert_eq!(attempts, [2, 3]);
}
