//! Responses that are lost or late on the way to the client.

use crate::{
    calls::{Lock, until, waiting_request},
    link::Link,
    world::{Cell, LONG, Watched},
};
use fencepost_proto::v1::watch_response::Kind;
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

/// The grant is lost with the connection. The client repeats its request, and gets the same lease.
pub(crate) async fn acquire(cell: Cell) {
    let (link, name) = (Link::to(&cell.world.address).await, cell.name("lock"));
    let (client, mut locks) = (cell.client_of(&[&link.address]).await, cell.world.locks());
    let watched = Watched::start(locks.clone(), &name).await;
    // Opens the connection.
    client.acquire(&cell.name("first"), LONG).await;
    link.hold_responses();
    let asked = client.ask_acquire(&name, &name, LONG, Duration::ZERO).await;
    until(async || locks.clone().holder(&name).await.is_some()).await;
    let token = locks.holder(&name).await.unwrap().fencing_token;
    link.cut();
    assert_eq!(asked.granted().await.token, token, "the repeat gets the lease of the first transmission");
    assert!(client.valid_for(&name).await.is_some());
    assert_eq!(client.release(&name).await, "released");
    assert_eq!(watched.tokens(Kind::Released, 1).await, [token]);
    assert_eq!(watched.tokens(Kind::Granted, 1).await, [token], "there was one grant");
}

/// The answer to a release is lost with the connection. The client repeats it, and gets the same answer. Then a
/// release is lost on the way to the server.
pub(crate) async fn release(cell: Cell) {
    let (link, name) = (Link::to(&cell.world.address).await, cell.name("lock"));
    let (client, locks) = (cell.client_of(&[&link.address]).await, cell.world.locks());
    let watched = Watched::start(locks.clone(), &name).await;
    let lock = client.acquire(&name, LONG).await;
    link.hold_responses();
    let asked = client.ask("release", json!({ "lock": name })).await;
    until(async || locks.clone().holder(&name).await.is_none()).await;
    link.cut();
    assert_eq!(asked.release_end().await, "released");
    assert_eq!(watched.tokens(Kind::Released, 1).await, [lock.token]);
    let again = client.ask_acquire("again", &name, LONG, Duration::ZERO).await.granted().await;
    assert_eq!((again.token > lock.token, again.previous_end.as_str()), (true, "released"));
    // The next release is lost itself.
    link.hold_all();
    let sent = link.requests();
    let asked = client.ask("release", json!({ "lock": "again" })).await;
    until(async || link.requests() > sent).await;
    link.cut();
    assert_eq!(asked.release_end().await, "released");
    assert_eq!(watched.tokens(Kind::Released, 2).await, [lock.token, again.token], "the client repeats the release");
    assert_eq!(client.events("lost", &name).len() + client.events("lost", "again").len(), 0, "a release is not a loss");
}

/// A grant arrives when less than half of its TTL is left: the client renews it before it hands it out.
pub(crate) async fn late(cell: Cell) {
    const TTL: Duration = Duration::from_secs(6);
    let (link, name) = (Link::to(&cell.world.address).await, cell.name("lock"));
    let (client, mut locks) = (cell.client_of(&[&link.address]).await, cell.world.locks());
    client.acquire(&cell.name("first"), LONG).await;
    link.hold_responses();
    let asked = client.ask_acquire(&name, &name, TTL, Duration::ZERO).await;
    until(async || locks.clone().holder(&name).await.is_some()).await;
    let token = locks.holder(&name).await.unwrap().fencing_token;
    sleep(TTL * 6 / 10).await;
    link.pass();
    assert_eq!(asked.granted().await.token, token, "the lease is kept");
    let left = client.valid_for(&name).await.expect("the lock is valid");
    assert!(left > TTL / 2, "only {left:?} is left: the lease was not renewed");
    assert_eq!(client.release(&name).await, "released");
}

/// A grant arrives when its lease is over, and another has the lock. The client does not hand it out: it waits for the
/// lock again.
pub(crate) async fn too_late(cell: Cell) {
    const TTL: Duration = Duration::from_secs(2);
    let (link, name) = (Link::to(&cell.world.address).await, cell.name("lock"));
    let (client, mut locks) = (cell.client_of(&[&link.address]).await, cell.world.locks());
    client.acquire(&cell.name("first"), LONG).await;
    link.hold_responses();
    let asked = client.ask_acquire(&name, &name, TTL, LONG).await;
    until(async || locks.clone().holder(&name).await.is_some()).await;
    let other = locks.acquire_lease(waiting_request(&name, LONG, LONG)).await;
    link.pass();
    until(async || locks.clone().lock_info(&name).await.waiters == 1).await;
    locks.release_lease(&other).await;
    assert!(asked.granted().await.token > other.fencing_token);
    assert!(client.valid_for(&name).await.is_some());
    assert_eq!(client.release(&name).await, "released");
    assert_eq!(client.events("lost", &name).len(), 0, "a lock that was not handed out is not lost");
}
