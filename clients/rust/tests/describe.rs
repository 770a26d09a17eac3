//! What a holder says of itself: what is sent, in which order, and what is known afterwards.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{BOUND, Do, Fake, builder, client};
use fencepost_client::{DescribeError, LossCause, Moment, raw::v1};
use std::future::IntoFuture as _;
use std::time::Duration;
use tokio::time::timeout;
use tonic::Status;
use v1::describe_response::Outcome;

fn answer(outcome: Outcome, number: u64) -> v1::DescribeResponse {
    v1::DescribeResponse { outcome: outcome.into(), number, ..Default::default() }
}

/// Others see each description.
fn describes(fake: &Fake) {
    fake.on_describe(|request| Do::Answer(answer(Outcome::Described, request.number)));
}

/// The numbers that were sent.
fn numbers(fake: &Fake) -> Vec<u64> {
    fake.state().describes.iter().map(|request| request.number).collect()
}

#[tokio::test]
async fn a_description_replaces_metadata_and_label_and_has_the_next_number() {
    let fake = Fake::start().await;
    describes(&fake);
    let lock = client(&[&fake]).acquire("x").await.unwrap();
    let described = lock.describe().metadata("address", "a:1").metadata("done", "7").holder("me").await;
    assert_eq!(described.unwrap(), 1);
    assert_eq!(lock.held().describe().await.unwrap(), 2);
    let state = fake.state();
    let (first, second) = (&state.describes[0], &state.describes[1]);
    assert_eq!((first.lock_name.as_str(), &first.lease_id), ("x", &fake::lease_id("x")));
    assert_eq!((first.metadata["address"].as_str(), first.metadata["done"].as_str()), ("a:1", "7"));
    assert_eq!((first.holder.as_deref(), first.number), (Some("me"), 1));
    assert_eq!((second.holder.as_deref(), second.metadata.len(), second.number), (None, 0, 2));
}

#[tokio::test]
async fn a_description_whose_answer_was_lost_is_repeated_with_its_number() {
    let fake = Fake::start().await;
    let lock = client(&[&fake]).acquire("x").await.unwrap();
    let mut copies = 0;
    fake.on_describe(move |request| {
        copies += 1;
        match copies {
            1 => Do::Fail(Status::unavailable("lost")),
            _ => Do::Answer(answer(Outcome::Described, request.number)),
        }
    });
    assert_eq!(lock.describe().await.unwrap(), 1);
    assert_eq!(numbers(&fake), [1, 1]);
}

#[tokio::test]
async fn a_lease_that_another_process_may_have_described_goes_on_with_its_number() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let kept = client.keep(client.acquire("x").await.unwrap().into_lease(), Moment::now(), Duration::ZERO);
    let repeated = client.acquire("x").request_id(uuid::Uuid::new_v4()).await.unwrap();
    for lock in [&kept, &repeated] {
        fake.on_describe(|_| Do::Answer(answer(Outcome::Described, 7)));
        assert_eq!(lock.describe().await.unwrap(), 7);
        describes(&fake);
        assert_eq!(lock.describe().await.unwrap(), 8);
    }
    assert_eq!(numbers(&fake), [0, 8, 0, 8]);
}

#[tokio::test]
async fn a_higher_number_of_another_process_is_told_and_the_next_one_is_above_it() {
    let fake = Fake::start().await;
    let lock = client(&[&fake]).acquire("x").await.unwrap();
    fake.on_describe(|_| Do::Answer(answer(Outcome::Outdated, 4)));
    let outdated = lock.describe().await.unwrap_err();
    assert!(matches!(outdated, DescribeError::Outdated { number: 4, .. }), "{outdated}");
    assert_eq!(outdated.to_string(), "another process has described x since (description 4)");
    describes(&fake);
    assert_eq!(lock.describe().await.unwrap(), 5);
    assert!(lock.is_valid());
}

#[tokio::test]
async fn descriptions_wait_for_each_other_and_one_that_was_dropped_keeps_its_number() {
    let fake = Fake::start().await;
    let lock = client(&[&fake]).acquire("x").await.unwrap();
    fake.on_describe(|request| match request.number {
        1 => Do::Hang,
        number => Do::Answer(answer(Outcome::Described, number)),
    });
    let first = tokio::spawn(lock.describe().into_future());
    fake.until("the first is sent", |state| state.describes.len() == 1).await;
    let (mut second, third) = (Box::pin(lock.describe().into_future()), lock.describe().into_future());
    // Each waits from its first poll on.
    assert!(timeout(Duration::ZERO, &mut second).await.is_err());
    first.abort();
    let (second, third) = timeout(BOUND, async { tokio::join!(second, third) }).await.unwrap();
    assert_eq!((second.unwrap(), third.unwrap()), (2, 3));
    assert_eq!(numbers(&fake), [1, 2, 3]);
}

#[tokio::test]
async fn an_unknown_outcome_is_told_and_a_lease_that_has_ended_is_lost() {
    let fake = Fake::start().await;
    let client = builder(&[&fake]).retry_for(Duration::from_millis(100)).build().unwrap();
    let lock = client.acquire("x").await.unwrap();
    fake.on_describe(|_| Do::Fail(Status::unavailable("away")));
    let Err(DescribeError::Call(error)) = lock.describe().await else { panic!("nobody answered") };
    assert!(error.is_outcome_unknown() && lock.is_valid(), "{error}");
    fake.on_describe(|_| {
        let (end, successor_token) = (v1::LeaseEnd::Expired.into(), 44);
        Do::Answer(v1::DescribeResponse { end, successor_token, ..answer(Outcome::Lost, 0) })
    });
    let sent = numbers(&fake).len();
    for _ in 0..2 {
        let Err(DescribeError::Lost(lost)) = lock.describe().await else { panic!("it has ended") };
        assert_eq!((lost.cause, lost.successor_token), (LossCause::Expired, Some(44)));
    }
    assert_eq!((lock.lost().await.cause, numbers(&fake).len()), (LossCause::Expired, sent + 1));
}

#[tokio::test]
async fn a_description_ends_with_the_validity_of_its_lease() {
    let fake = Fake::start().await;
    fake.update(|state| (state.beats, state.renews_leases) = (false, false));
    fake.on_acquire(|request| {
        let mut answer = fake::acquired(&request.lock_name);
        answer.lease.as_mut().unwrap().ttl = fake::wire(Duration::from_millis(300));
        Do::Answer(answer)
    });
    fake.on_describe(|_| Do::Hang);
    let lock = client(&[&fake]).acquire("x").await.unwrap();
    let Err(DescribeError::Lost(lost)) = lock.describe().await else { panic!("the lease is over") };
    assert_eq!((lost.cause, numbers(&fake)), (LossCause::Silence, vec![1]));
}

#[tokio::test]
async fn a_leader_describes_its_term() {
    let fake = Fake::start().await;
    describes(&fake);
    let led =
        client(&[&fake]).acquire("x").lead(|term| async move { term.describe().metadata("address", "a:1").await });
    assert_eq!(led.await.unwrap().unwrap(), 1);
}
