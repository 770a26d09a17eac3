//! One slot of a Redis Cluster as a node: a real cluster of six, with failovers and moves of the slot.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../../support/authority.rs"]
mod authority;
#[path = "../../support/certificates.rs"]
mod certificates;
#[path = "../../support/redis_cluster.rs"]
mod cluster;
mod doctor;
mod entry;
#[path = "../../support/kept.rs"]
mod kept;
mod moves;
#[path = "../../support/redis.rs"]
mod redis;
mod scripts;
mod store;
#[path = "../../support/server.rs"]
mod support;

use cluster::RedisCluster;
use fencepost::testing::node::{NodeError, NodeUrl};
use kept::Kept;
use redis::Redis;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

impl Kept {
    fn to(url: &str) -> Self {
        Self::new(NodeUrl::parse(url).unwrap())
    }

    /// Waits until all connections lead to this address only, and says how long that took.
    async fn moves_to(&self, address: &str) -> Duration {
        let (start, there) = (Instant::now(), Ok(vec![address.to_owned()]));
        until(&format!("the connections lead to {address}"), || self.addresses() == there).await;
        start.elapsed()
    }

    /// Waits until no connection is up for a reason with these words, and says how long that took.
    async fn goes_down(&self, says: &str) -> Duration {
        let start = Instant::now();
        until(says, || matches!(self.addresses(), Err(NodeError::Unavailable(why)) if why.contains(says))).await;
        start.elapsed()
    }

    /// Counts its calls in a key of the slot.
    async fn counts(&self) -> Result<i64, NodeError> {
        self.count_at("{fp}n").await
    }

    /// The next number, as soon as there is one.
    async fn counts_on(&self) -> i64 {
        let start = Instant::now();
        loop {
            match self.counts().await {
                Ok(number) => return number,
                Err(why) => assert!(start.elapsed() < PATIENCE, "{why}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The longest wait for a condition.
const PATIENCE: Duration = Duration::from_secs(60);

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = timeout(PATIENCE, async {
        while !holds() {
            sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "not within {PATIENCE:?}: {what}");
}
