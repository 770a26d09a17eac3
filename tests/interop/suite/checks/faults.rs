//! Servers that fall silent, die, or drain.

use crate::{
    binary::Server,
    calls::Lock,
    driver::Driver,
    link::Link,
    world::{Cell, LONG, NO_WAIT, Store, address, locks_at},
};
use nix::sys::signal::Signal;
use std::{fs, time::Duration};
use tokio::time::sleep;

/// Half of it, in which a client may notice silence, is long for a busy machine.
const TTL: Duration = Duration::from_secs(6);
/// For a lease that is to be lost.
const SHORT: Duration = Duration::from_secs(2);

/// A stream falls silent while its connection stays open. The client attaches its lease on another server in time.
pub(crate) async fn silence(cell: Cell) {
    let (link, name) = (Link::to(&cell.world.address).await, cell.name("lock"));
    // The memory of a server has no other server: there the client reaches the same one in another way.
    let other = (cell.world.store == Store::Redis).then(|| cell.world.another_server(&[]));
    let other_address = other.as_ref().map_or_else(|| cell.world.address.clone(), address);
    let client = cell.client_of(&[&link.address, &other_address]).await;
    let lock = client.acquire(&name, TTL).await;
    assert!(link.connections() > 0, "the client uses the first server first");
    link.hold_all();
    still_held(&cell, &client, &name, lock.token).await;
}

/// The lease is kept past its TTL, and released. Nothing was reported as lost.
async fn still_held(cell: &Cell, client: &Driver, name: &str, token: u64) {
    sleep(TTL * 3 / 2).await;
    assert!(client.valid_for(name).await.is_some(), "the lock is kept");
    assert_eq!(client.events("lost", name).len(), 0);
    assert_eq!(cell.world.locks().holder(name).await.expect("a holder").fencing_token, token);
    assert_eq!(client.release(name).await, "released");
    // The client still works.
    let next = client.ask_acquire("next", name, LONG, NO_WAIT).await.granted().await;
    assert!(next.token > token);
    assert_eq!(client.release("next").await, "released");
}

/// A stream falls silent, and there is no other server. The client reports the loss, and works again later.
pub(crate) async fn silence_alone(cell: Cell) {
    let (link, name, file) = (Link::to(&cell.world.address).await, cell.name("lock"), cell.file("tokens"));
    let client = cell.client_of(&[&link.address]).await;
    let lock = client.acquire(&name, SHORT).await;
    link.hold_all();
    assert_eq!(client.loss(&name).await, "silence");
    assert_eq!(client.valid_for(&name).await, None);
    assert_eq!(client.ask_write(&name, &file).await.failed().await.0, "lost");
    assert!(fs::metadata(&file).is_err(), "nothing was written");
    assert_eq!(client.release(&name).await, "unspecified", "no server has reported an end");
    link.cut();
    let again = client.ask_acquire("again", &name, SHORT, LONG).await.granted().await;
    assert!(again.token > lock.token);
    assert_eq!(client.release("again").await, "released");
}

/// The server dies, and another one with an empty memory takes its address: the lease is gone. The client reports it.
pub(crate) async fn replaced(cell: Cell) {
    let (server, name) = (cell.world.another_server(&[]), cell.name("lock"));
    let client = cell.client_of(&[&address(&server)]).await;
    let lock = client.acquire(&name, LONG).await;
    let server = server.replace();
    assert_eq!(client.loss(&name).await, "unknown");
    let again = client.ask_acquire("again", &name, LONG, NO_WAIT).await.granted().await;
    assert!(again.token > lock.token, "tokens rise when the memory is lost");
    assert_eq!(client.release("again").await, "released");
    drop(server);
}

/// The server dies, and there is another one on the same Redis.
pub(crate) async fn killed(cell: Cell) {
    let (server, name) = (cell.world.another_server(&[]), cell.name("lock"));
    let link = Link::to(&address(&server)).await;
    let client = cell.client_of(&[&link.address, &cell.world.address]).await;
    let lock = client.acquire(&name, TTL).await;
    assert!(link.connections() > 0, "the client uses the first server first");
    server.process.signal(Signal::SIGKILL);
    server.process.ended().expect(-(Signal::SIGKILL as i32));
    still_held(&cell, &client, &name, lock.token).await;
}

/// A server drains, and there is another one. The client moves its lease and its waiting acquire there, and ends its
/// stream, so that the drain is over long before its timeout.
pub(crate) async fn drained(cell: Cell) {
    let server = cell.world.another_server(&["--drain-timeout", "5m"]);
    let (name, wanted, mut locks) = (cell.name("lock"), cell.name("wanted"), cell.world.locks());
    let client = cell.client_of(&[&address(&server), &cell.world.address]).await;
    let lock = client.acquire(&name, TTL).await;
    // Another one without an acquire, whose refusal would tell it of the drain.
    let (idle, kept) = (cell.driver("idle"), cell.name("kept"));
    idle.open(&[&address(&server), &cell.world.address]).await;
    idle.acquire(&kept, TTL).await;
    let other = locks.acquire_lease(crate::calls::acquire_request(&wanted, LONG)).await;
    let waiting = client.ask_acquire(&wanted, &wanted, LONG, LONG).await;
    crate::calls::until(async || locks.clone().lock_info(&wanted).await.waiters == 1).await;
    server.process.signal(Signal::SIGTERM);
    server.drained();
    still_held(&cell, &client, &name, lock.token).await;
    locks.release_lease(&other).await;
    assert!(waiting.granted().await.token > other.fencing_token);
    assert_eq!(idle.release(&kept).await, "released");
    assert_eq!(client.release(&wanted).await, "released");
}

/// A server drains, and there is no other. It keeps the lease alive until its timeout; then the client loses it.
pub(crate) async fn drained_alone(cell: Cell) {
    let server = cell.world.another_server(&["--drain-timeout", "10s"]);
    let (name, at) = (cell.name("lock"), address(&server));
    let client = cell.client_of(&[&at]).await;
    let lock = client.acquire(&name, SHORT).await;
    server.process.signal(Signal::SIGTERM);
    sleep(SHORT * 3 / 2).await;
    assert!(client.valid_for(&name).await.is_some(), "the lock is kept during the drain");
    assert_eq!(locks_at(&at).holder(&name).await.expect("a holder").fencing_token, lock.token);
    ended(server);
    assert_eq!(client.loss(&name).await, "silence");
}

fn ended(server: Server) {
    let log = server.drained();
    assert!(log.contains("drain timeout is over"), "the stream stays open until the timeout: {log}");
}
