//! The processes and links of one history, for any topology.

use super::quorum::Quorum;
use crate::{proxy::Link, pump::Upstream, redis::Redis, server::Server, wall::WallClock};
use anyhow::{Context, Result};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// All processes except the clients.
pub(crate) struct Deployment {
    pub(crate) servers: Vec<Server>,
    /// The links from each server to each Redis that it uses; none for the memory store.
    pub(crate) store_links: Vec<Link>,
    /// The Redis processes. One of them is the primary, or they are the nodes of a quorum.
    pub(crate) redis: Vec<Redis>,
    primary: AtomicUsize,
    /// The link from the replica to the primary.
    pub(crate) replication: Option<Link>,
    pub(crate) wall: Option<Arc<WallClock>>,
    pub(crate) quorum: Option<Quorum>,
}

impl Deployment {
    pub(crate) fn new(servers: Vec<Server>, store_links: Vec<Link>, redis: Vec<Redis>) -> Self {
        Self { servers, store_links, redis, primary: AtomicUsize::new(0), replication: None, wall: None, quorum: None }
    }

    pub(crate) fn primary(&self) -> Result<&Redis> {
        self.redis.get(self.primary.load(Ordering::Relaxed)).context("no Redis here")
    }

    pub(crate) fn replica(&self) -> Result<&Redis> {
        self.redis.get(1 - self.primary.load(Ordering::Relaxed).min(1)).context("no replica here")
    }

    /// Swaps replica and primary, and routes the servers to the new primary.
    pub(crate) fn switch_primary(&self) -> Result<()> {
        self.primary.store(1 - self.primary.load(Ordering::Relaxed), Ordering::Relaxed);
        self.route_to_primary()
    }

    pub(crate) fn route_to_primary(&self) -> Result<()> {
        let socket = &self.primary()?.socket;
        for link in self.store_links.iter().chain(&self.replication) {
            link.route_to(Upstream::Unix(socket.clone()));
        }
        Ok(())
    }

    /// Whether the servers lose their state with their process.
    pub(crate) fn forgets_with_server(&self) -> bool {
        self.redis.is_empty()
    }

    /// Waits until all servers serve.
    pub(crate) async fn wait_until_serving(&self) -> Result<()> {
        let clocks_apart = self.wall.as_ref().map(|wall| wall.apart()).unwrap_or_default();
        for server in &self.servers {
            server.wait_until_serving(clocks_apart).await?;
        }
        Ok(())
    }

    /// Heals all faults.
    pub(crate) async fn heal(&self) -> Result<()> {
        for redis in &self.redis {
            redis.ensure_running().await?;
        }
        for server in &self.servers {
            server.ensure_running().await?;
            server.link.heal();
        }
        self.store_links.iter().chain(&self.replication).for_each(Link::heal);
        self.wait_until_serving().await
    }
}
