//! The processes and links of one history, whatever its topology.

use crate::{proxy::Link, pump::Upstream, redis::Redis, server::Server, wall::WallClock};
use anyhow::{Context, Result};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Everything but the clients.
pub(crate) struct World {
    pub(crate) servers: Vec<Server>,
    /// How each server reaches its Redis: one link a server, or none.
    pub(crate) store_links: Vec<Link>,
    /// The Redis processes, of which one is the primary.
    pub(crate) redis: Vec<Redis>,
    primary: AtomicUsize,
    /// How the replica reaches the primary.
    pub(crate) replication: Option<Link>,
    pub(crate) wall: Option<Arc<WallClock>>,
}

impl World {
    pub(crate) fn new(servers: Vec<Server>, store_links: Vec<Link>, redis: Vec<Redis>) -> Self {
        Self { servers, store_links, redis, primary: AtomicUsize::new(0), replication: None, wall: None }
    }

    pub(crate) fn primary(&self) -> Result<&Redis> {
        self.redis.get(self.primary.load(Ordering::Relaxed)).context("no Redis here")
    }

    pub(crate) fn replica(&self) -> Result<&Redis> {
        self.redis.get(1 - self.primary.load(Ordering::Relaxed).min(1)).context("no replica here")
    }

    /// The replica and the primary change places; the servers are sent to the new primary.
    pub(crate) fn change_places(&self) -> Result<()> {
        self.primary.store(1 - self.primary.load(Ordering::Relaxed), Ordering::Relaxed);
        self.lead_to_primary()
    }

    pub(crate) fn lead_to_primary(&self) -> Result<()> {
        let socket = &self.primary()?.socket;
        for link in self.store_links.iter().chain(&self.replication) {
            link.lead_to(Upstream::Unix(socket.clone()));
        }
        Ok(())
    }

    /// Whether the servers' state is gone with their process.
    pub(crate) fn forgets_with_server(&self) -> bool {
        self.redis.is_empty()
    }

    /// Until all servers serve.
    pub(crate) async fn works(&self) -> Result<()> {
        for server in &self.servers {
            server.works().await?;
        }
        Ok(())
    }

    /// Makes all of it whole.
    pub(crate) async fn heal(&self) -> Result<()> {
        for redis in &self.redis {
            redis.begin().await?;
        }
        for server in &self.servers {
            server.begin().await?;
            server.link.heal();
        }
        self.store_links.iter().chain(&self.replication).for_each(Link::heal);
        self.works().await
    }
}
