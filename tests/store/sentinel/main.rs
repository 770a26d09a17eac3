//! One Redis that Sentinel names: real Sentinels with real failovers, and fake ones that lie or are silent.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../../support/authority.rs"]
mod authority;
#[path = "../../support/certificates.rs"]
mod certificates;
mod doctor;
mod entry;
mod failover;
mod fake;
#[path = "../../support/kept.rs"]
mod kept;
#[path = "../../support/redis.rs"]
mod redis_server;
#[path = "../../support/server.rs"]
mod support;
mod votes;
mod world;

use fencepost::testing::node::{NodeError, NodeUrl};
use kept::Kept;
use redis_server::Redis;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

impl Kept {
    fn to(url: &str) -> Self {
        Self::new(NodeUrl::parse(url).unwrap())
    }

    /// Waits until all connections lead to this Redis only, and says how long that took.
    async fn moves_to(&self, redis: &Redis) -> Duration {
        let start = Instant::now();
        let there = Ok(vec![place(redis)]);
        until("the connections lead to the primary", || self.addresses() == there).await;
        start.elapsed()
    }

    /// Waits until it has connections.
    async fn is_up(&self) {
        until("connections are up", || self.addresses().is_ok()).await;
    }

    /// Waits until no connection is up for a reason with these words, and says how long that took.
    async fn goes_down(&self, says: &str) -> Duration {
        let start = Instant::now();
        until(says, || matches!(self.addresses(), Err(NodeError::Unavailable(why)) if why.contains(says))).await;
        start.elapsed()
    }
}

fn place(redis: &Redis) -> String {
    format!("127.0.0.1:{}", redis.port)
}

/// The longest wait for a condition. A Sentinel whose timer came more than 2 s late, on a busy machine, does nothing
/// for 30 s (TILT), so a failover may take as long.
const PATIENCE: Duration = Duration::from_secs(90);

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = timeout(PATIENCE, async {
        while !holds() {
            sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "not within {PATIENCE:?}: {what}");
}
