//! What is sent if the caller names nothing, and what the server's answer decides.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod fake;

use fake::{Do, Fake, TTL, acquired, client};
use fencepost_client::bounds;
use std::time::Duration;

#[tokio::test]
async fn no_ttl_is_sent_unless_the_caller_names_one() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let lock = client.acquire("x").await.unwrap();
    drop(client.try_acquire("y").await.unwrap().unwrap());
    client.acquire("z").run(|_| async {}).await.unwrap();
    assert!(fake.state().acquires.iter().all(|request| request.ttl.is_none()), "{:?}", fake.state().acquires);
    assert_eq!(lock.ttl(), TTL, "what the server answered");
    drop(client.acquire("x").ttl(TTL).await.unwrap());
    assert_eq!(fake.state().acquires.last().unwrap().ttl, fake::wire(TTL));
}

/// A client that believes in a longer TTL notices silence too late.
#[tokio::test]
async fn the_ttl_of_a_lease_is_that_of_the_answer() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Answer(acquired("x")));
    let lock = client(&[&fake]).acquire("x").ttl(TTL * 2).await.unwrap();
    assert_eq!(lock.ttl(), TTL);
    assert!(lock.valid_for() < TTL);
}

#[tokio::test]
async fn what_programs_print_is_readable_and_has_no_secret() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let address = fake.url.trim_start_matches("http://");
    assert_eq!(format!("{client:?}"), format!("Client {{ servers: [\"{address}\"], holder: \"a test\", .. }}"));
    let lock = client.acquire("x").await.unwrap();
    let shown = "Lease { lock_name: \"x\", grant_id: \"grant-1\", token: 41, ";
    assert_eq!(format!("{lock:?}"), format!("{shown}status: Held, .. }}"));
    let lease = lock.into_lease();
    assert_eq!(lease.lease_id, fake::lease_id("x"));
    assert!(format!("{lease:?}").starts_with(shown) && !format!("{lease:?}").contains(&lease.lease_id), "{lease:?}");
}

#[test]
fn bounds_are_those_of_the_server() {
    assert_eq!((bounds::TTL_DEFAULT, bounds::TTL_MIN), (Duration::from_secs(30), Duration::from_secs(1)));
    assert_eq!(fencepost_client::VERSION, env!("CARGO_PKG_VERSION"));
}
