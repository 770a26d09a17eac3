//! Waiting for a lock that another holds.

use crate::{
    calls::{Lock, acquire_request, until},
    link::Link,
    world::{Cell, LONG, NO_WAIT, Watched},
};
use fencepost_proto::v1::{AcquireRequest, LockMode, watch_response::Kind};
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

const WAITERS: u32 = 64;

/// An acquire that is refused says who holds the lock, and how many there are if they are more than it can name.
pub(crate) async fn refused(cell: Cell) {
    let (client, name, mut locks) = (cell.client().await, cell.name("lock"), cell.world.locks());
    let shared = cell.name("shared");
    locks.acquire_lease(acquire_request(&name, LONG)).await;
    for _ in 0..10 {
        let reader = AcquireRequest { mode: LockMode::Shared.into(), ..acquire_request(&shared, LONG) };
        locks.acquire_lease(reader).await;
    }
    for (wait, kind) in [(NO_WAIT, "contended"), (Duration::from_millis(300), "timed_out")] {
        let (failed, answer) = client.ask_acquire(&name, &name, LONG, wait).await.failed().await;
        assert_eq!((failed.as_str(), &answer["holder"]), (kind, &json!("test")), "{answer}");
        assert_eq!((&answer["holders"], &answer["waiters"]), (&json!(1), &json!(0)), "{answer}");
        let (failed, answer) = client.ask_acquire(&shared, &shared, LONG, wait).await.failed().await;
        assert_eq!((failed.as_str(), &answer["holders"]), (kind, &json!(10)), "{answer}");
        assert!(answer["message"].as_str().is_some_and(|it| it.ends_with(" and 2 more, 0 waiting")), "{answer}");
    }
    assert_eq!(locks.lock_info(&name).await.waiters, 0, "nobody waits any more");
    let (failed, answer) = client.ask_acquire("bad", "", LONG, NO_WAIT).await.failed().await;
    assert_eq!((failed.as_str(), &answer["code"]), ("refused", &json!("INVALID_ARGUMENT")), "{answer}");
}

/// Waiters of one client are served in the order in which they came.
pub(crate) async fn in_order(cell: Cell) {
    let (client, name, mut locks) = (cell.client().await, cell.name("lock"), cell.world.locks());
    let lease = locks.acquire_lease(acquire_request(&name, LONG)).await;
    let mut waiting = Vec::new();
    for number in 1..=WAITERS {
        let label = number.to_string();
        waiting.push((client.ask_acquire(&label, &name, LONG, LONG).await, label));
        until(async || locks.clone().lock_info(&name).await.waiters == number).await;
    }
    let (kind, answer) = client.ask_acquire("try", &name, LONG, NO_WAIT).await.failed().await;
    assert_eq!((kind.as_str(), &answer["waiters"]), ("contended", &json!(WAITERS)), "{answer}");
    locks.release_lease(&lease).await;
    let mut newest = lease.fencing_token;
    for (asked, label) in waiting {
        // If another waiter were served first, it would hold the lock for ever.
        let token = asked.granted().await.token;
        assert!(token > newest, "{token} comes after {newest}");
        newest = token;
        assert_eq!(client.release(&label).await, "released");
    }
    assert!(locks.holder(&name).await.is_none(), "the lock is free");
}

/// A grant after a wait that took longer than the TTL is valid: the server counts the TTL from the grant, and says so.
pub(crate) async fn after_a_wait(cell: Cell) {
    const TTL: Duration = Duration::from_secs(2);
    let (client, name, mut locks) = (cell.client().await, cell.name("lock"), cell.world.locks());
    let watched = Watched::start(locks.clone(), &name).await;
    let lease = locks.acquire_lease(acquire_request(&name, LONG)).await;
    let waiting = client.ask_acquire(&name, &name, TTL, LONG).await;
    until(async || locks.clone().lock_info(&name).await.waiters == 1).await;
    sleep(TTL * 3 / 2).await;
    locks.release_lease(&lease).await;
    let granted = waiting.granted().await;
    assert!(client.valid_for(&name).await.is_some());
    assert_eq!(client.release(&name).await, "released");
    let tokens = [lease.fencing_token, granted.token];
    assert_eq!(watched.tokens(Kind::Released, 2).await, tokens);
    assert_eq!(watched.tokens(Kind::Granted, 2).await, tokens, "the client uses the first grant");
}

/// A cancelled acquire leaves the queue at once.
pub(crate) async fn cancelled(cell: Cell) {
    let (client, name, mut locks) = (cell.client().await, cell.name("lock"), cell.world.locks());
    let lease = locks.acquire_lease(acquire_request(&name, LONG)).await;
    let waiting = client.ask_acquire("waiting", &name, LONG, LONG).await;
    until(async || locks.clone().lock_info(&name).await.waiters == 1).await;
    client.call("cancel", json!({ "of": waiting.id })).await.expect("cancelled");
    assert_eq!(waiting.failed().await.0, "cancelled");
    until(async || locks.clone().lock_info(&name).await.waiters == 0).await;
    locks.release_lease(&lease).await;
    let next = client.ask_acquire("next", &name, LONG, NO_WAIT).await.granted().await;
    assert!(next.token > lease.fencing_token);
    assert_eq!(client.release("next").await, "released");
}

/// An acquire is cancelled while its grant is on the way. The client releases the lease, which nobody would end before
/// its TTL otherwise.
pub(crate) async fn cancelled_as_granted(cell: Cell) {
    let (link, name) = (Link::to(&cell.world.address).await, cell.name("lock"));
    let (client, mut locks) = (cell.client_of(&[&link.address]).await, cell.world.locks());
    let lease = locks.acquire_lease(acquire_request(&name, LONG)).await;
    let waiting = client.ask_acquire("waiting", &name, LONG, LONG).await;
    until(async || locks.clone().lock_info(&name).await.waiters == 1).await;
    link.hold_responses();
    locks.release_lease(&lease).await;
    until(async || locks.clone().holder(&name).await.is_some_and(|it| it.fencing_token > lease.fencing_token)).await;
    client.call("cancel", json!({ "of": waiting.id })).await.expect("cancelled");
    assert_eq!(waiting.failed().await.0, "cancelled");
    link.pass();
    until(async || locks.clone().holder(&name).await.is_none()).await;
    assert_eq!(client.events("lost", "waiting").len(), 0, "a lock that was not handed out is not lost");
}
