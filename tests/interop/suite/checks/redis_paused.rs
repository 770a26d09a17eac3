//! Redis stops answering.

use crate::{
    redis::Redis,
    world::{Cell, LONG, address, server_on},
};
use std::time::Duration;

/// Redis is paused for a part of the TTL: the client reports that the lease is at risk, and keeps it. Then Redis is
/// paused for longer: the client reports the loss.
pub(crate) async fn paused(cell: Cell) {
    // A renewal is due after a third, and fails after the 500 ms that the server waits for Redis. Redis continues then.
    const TTL: Duration = Duration::from_secs(8);
    let redis = Redis::start(&[]);
    let server = server_on(Some(&redis.url()), &[]);
    let (client, name) = (cell.client_of(&[&address(&server)]).await, cell.name("lock"));
    let lock = client.acquire(&name, TTL).await;
    redis.pause();
    client.event("at_risk", &name).await;
    assert!(client.valid_for(&name).await.is_some(), "at risk is not lost");
    redis.resume();
    tokio::time::sleep(TTL).await;
    assert!(client.valid_for(&name).await.is_some(), "the lock is kept");
    assert_eq!(client.events("lost", &name).len(), 0);
    redis.pause();
    assert_eq!(client.loss(&name).await, "silence");
    assert_eq!(client.valid_for(&name).await, None);
    redis.resume();
    let again = client.ask_acquire("again", &name, LONG, LONG).await.granted().await;
    assert!(again.token > lock.token);
    assert_eq!(client.release("again").await, "released");
}
