//! The end of a process, and of a client.

use crate::{
    calls::{Lock, acquire_request, until, waiting_request},
    world::{Cell, LONG, NO_WAIT},
};
use fencepost_proto::v1::{self, acquire_response::Outcome};
use serde_json::json;
use std::time::Duration;

/// A process ends although its client is open and holds a lock. The lock is free after its TTL.
pub(crate) async fn without_close(cell: Cell) {
    const TTL: Duration = Duration::from_secs(2);
    for end in ["exit", "end-of-input"] {
        let (client, name) = (cell.driver(end), cell.name(end));
        client.open(&[&cell.world.address]).await;
        let lock = client.acquire(&name, TTL).await;
        let status = if end == "exit" { client.exit().await } else { client.end_input().await };
        assert!(status.success(), "{end}: {status}");
        let next = cell.world.locks().acquire_lease(waiting_request(&name, LONG, LONG)).await;
        assert!(next.fencing_token > lock.token);
    }
}

/// A closed client keeps nothing: not its locks, not its place in a queue, not its process.
pub(crate) async fn closed(cell: Cell) {
    let (client, name, mut locks) = (cell.client().await, cell.name("lock"), cell.world.locks());
    let (wanted, lock) = (cell.name("wanted"), client.acquire(&name, LONG).await);
    let other = locks.acquire_lease(acquire_request(&wanted, LONG)).await;
    let waiting = client.ask_acquire(&wanted, &wanted, LONG, LONG).await;
    until(async || locks.clone().lock_info(&wanted).await.waiters == 1).await;
    client.call("close", json!({})).await.expect("closed");
    assert_eq!(waiting.failed().await.0, "closed");
    until(async || locks.clone().lock_info(&wanted).await.waiters == 0).await;
    assert_eq!(locks.holder(&wanted).await.expect("a holder").fencing_token, other.fencing_token);
    let (kind, answer) = client.ask_acquire("next", &name, LONG, NO_WAIT).await.failed().await;
    assert_eq!(kind, "closed", "{answer}");
    until(async || locks.clone().holder(&name).await.is_none()).await;
    let next = locks.acquire_response(acquire_request(&name, LONG)).await;
    assert_eq!((next.outcome(), next.previous_end()), (Outcome::Acquired, v1::LeaseEnd::Released));
    assert!(next.lease.expect("a lease").fencing_token > lock.token);
    let status = client.exit().await;
    assert!(status.success(), "{status}");
}
