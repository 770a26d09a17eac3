//! Hints come late, twice, or for nobody: they are hints.

use crate::{
    redis_server::Redis,
    server_on,
    support::{Lock, read, waiting_wish, wish},
};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(30);

/// An offer may be told twice, by a message and by the poll. The lease that came of it is nobody's to cut.
#[tokio::test]
async fn a_hint_that_comes_after_the_lease_leaves_it_alone() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let first = server.client().take(wish("a", TTL)).await;
    let request = waiting_wish("a", TTL, TTL);
    let (mut waiting, asked) = (server.client(), request.clone());
    let waiter = tokio::spawn(async move { waiting.take(asked).await });
    crate::support::until(|| async { server.client().look("a").await.waiters == 1 }).await;
    server.client().give_back(&first).await;
    let lease = waiter.await.unwrap();
    let channel = redis.command(&["PUBSUB", "CHANNELS", "fp:c:*"]).text();
    let replica = channel.trim().strip_prefix("fp:c:").unwrap().to_owned();
    let id = request.request_id.replace('-', "");
    let before = redis.calls("evalsha");
    redis.command(&["PUBLISH", channel.trim(), &format!("look\n{replica}\n{id}\n1\na")]);
    crate::support::until(|| async { redis.calls("evalsha") > before }).await;
    let current = server.client().look("a").await.current.unwrap();
    assert_eq!(current.fencing_token, lease.fencing_token);
    assert!(read(current.expires_in) > TTL / 2, "{:?} left", current.expires_in);
}
