//! Semaphores of the Rust client, against the real server.

use crate::support::{Lock as _, Server, until, within};
use fencepost_client::{Acquire, AcquireError, Client, Held, Moment};
use std::{future::IntoFuture, time::Duration};

const LONG: Duration = Duration::from_secs(50);

fn client(server: &Server) -> Client {
    Client::new(format!("http://{}", server.addr)).unwrap()
}

fn permits_and_slot(held: &Held) -> (u32, Option<u32>) {
    (held.permits(), held.slot())
}

/// The reason of the refusal, and its message.
async fn refusal(acquire: Acquire) -> (String, String) {
    let Err(AcquireError::Refused { source }) = within(acquire.into_future()).await else { panic!("not refused") };
    (source.reason().unwrap_or_default(), source.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn holders_have_slots_and_the_next_one_gets_the_free_slot() {
    let server = Server::start().await;
    let client = client(&server);
    let permit = |label: &str| client.acquire("a").semaphore(2).holder(label);
    let (one, two) = (permit("one").await.unwrap(), permit("two").await.unwrap());
    assert_eq!([permits_and_slot(&one), permits_and_slot(&two)], [(1, Some(1)), (1, Some(2))]);
    let Err(AcquireError::Contended { holders, .. }) = permit("three").await else { panic!("granted") };
    let holders: Vec<_> = holders.iter().map(|it| (it.token.unwrap(), it.permits, it.slot, it.shared)).collect();
    assert_eq!(holders, [(one.token(), 1, Some(1), false), (two.token(), 1, Some(2), false)]);
    let three = tokio::spawn(permit("three").wait(LONG).into_future());
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    assert!(within(one.release()).await.unwrap().was_held());
    let three = within(three).await.unwrap().unwrap();
    assert_eq!(permits_and_slot(&three), (1, Some(1)));
    within(two.release()).await.unwrap();
    within(three.release()).await.unwrap();
    assert_eq!(permits_and_slot(&client.acquire("a").await.unwrap()), (0, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_permits_have_no_slot_and_a_lease_that_is_handed_over_keeps_what_it_has() {
    let server = Server::start().await;
    let client = client(&server);
    let permits = |count| client.acquire("a").semaphore(4).permits(count);
    let (two, one) = (permits(2).await.unwrap(), permits(1).await.unwrap());
    assert_eq!([permits_and_slot(&two), permits_and_slot(&one)], [(2, None), (1, Some(1))]);
    assert!(matches!(permits(2).await, Err(AcquireError::Contended { .. })));
    for lock in [two, one] {
        let (had, lease) = (permits_and_slot(&lock), lock.into_lease());
        assert_eq!((lease.permits, lease.slot), had);
        assert_eq!(permits_and_slot(&client.keep(lease, Moment::now(), Duration::ZERO)), had);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_limit_needs_a_higher_version() {
    let server = Server::start().await;
    let client = client(&server);
    let permit = |limit| client.acquire("a").semaphore(limit).wait(LONG);
    let one = permit(1).await.unwrap();
    let (reason, message) = refusal(permit(2)).await;
    assert_eq!(reason, "PERMIT_LIMIT_MISMATCH");
    assert!(message.contains("limit 1 of version 0 is in force"), "{message}");
    assert_eq!(refusal(client.acquire("a").shared().wait(LONG)).await.0, "MODE_MISMATCH");
    let two = tokio::spawn(permit(1).into_future());
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    // The new limit has room for the waiter and for the request that names it.
    let three = permit(3).permit_limit_version(1).await.unwrap();
    let two = within(two).await.unwrap().unwrap();
    let mut slots = [&one, &two, &three].map(|lock| lock.slot());
    slots.sort_unstable();
    assert_eq!(slots, [Some(1), Some(2), Some(3)]);
}
