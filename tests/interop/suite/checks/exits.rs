//! The end of a process, and of a client.

use crate::{
    calls::{Lock, waiting_request},
    world::{Cell, LONG, NO_WAIT},
};
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

/// A closed client keeps nothing: not its locks, not its process.
pub(crate) async fn closed(cell: Cell) {
    let (client, name) = (cell.client().await, cell.name("lock"));
    client.acquire(&name, Duration::from_secs(2)).await;
    client.call("close", json!({})).await.expect("closed");
    let (kind, answer) = client.ask_acquire("next", &name, LONG, NO_WAIT).await.failed().await;
    assert_eq!(kind, "closed", "{answer}");
    let mut locks = cell.world.locks();
    locks.acquire_lease(waiting_request(&name, LONG, LONG)).await;
    let status = client.exit().await;
    assert!(status.success(), "{status}");
}
