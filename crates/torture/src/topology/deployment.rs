//! The processes and links of one history, for any topology.

use super::{
    cluster::{self, Cluster},
    quorum::Quorum,
};
use crate::{proxy::Link, pump::Upstream, redis::Redis, server::Server, wall::WallClock};
use anyhow::{Context, Result};
use fencepost_torture::history::Record;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// All processes except the clients.
pub(crate) struct Deployment {
    pub(crate) servers: Vec<Server>,
    /// The links from each server to each Redis that it uses; none for the memory store.
    pub(crate) store_links: Vec<Link>,
    /// The Redis processes. One of them is the primary, or they are the nodes of a quorum or the members of a cluster.
    pub(crate) redis: Vec<Redis>,
    primary: AtomicUsize,
    /// The link from the replica to the primary.
    pub(crate) replication: Option<Link>,
    pub(crate) wall: Option<Arc<WallClock>>,
    pub(crate) quorum: Option<Quorum>,
    pub(crate) cluster: Option<Cluster>,
}

impl Deployment {
    pub(crate) fn new(servers: Vec<Server>, store_links: Vec<Link>, redis: Vec<Redis>) -> Self {
        let primary = AtomicUsize::new(0);
        Self { servers, store_links, redis, primary, replication: None, wall: None, quorum: None, cluster: None }
    }

    /// The number of the primary among the Redis processes.
    pub(crate) fn primary_number(&self) -> usize {
        self.primary.load(Ordering::Relaxed)
    }

    /// Another Redis is the primary now.
    pub(crate) fn set_primary(&self, number: usize) {
        self.primary.store(number, Ordering::Relaxed);
    }

    pub(crate) fn primary(&self) -> Result<&Redis> {
        self.redis.get(self.primary_number()).context("no Redis here")
    }

    pub(crate) fn replica(&self) -> Result<&Redis> {
        let primary = self.primary_number();
        let number = if self.cluster.is_some() { cluster::partner(primary) } else { Some(1 - primary.min(1)) };
        number.and_then(|number| self.redis.get(number)).context("no replica here")
    }

    /// A link from a server to Redis: in a cluster, to the primary of the slot.
    pub(crate) fn store_link(&self, target: usize) -> &Link {
        let number = match &self.cluster {
            Some(_) => target % self.servers.len() * self.redis.len() + self.primary_number(),
            None => target % self.store_links.len(),
        };
        &self.store_links[number]
    }

    /// Swaps replica and primary, and routes the servers to the new primary.
    pub(crate) fn switch_primary(&self) -> Result<()> {
        self.set_primary(1 - self.primary_number());
        self.route_to_primary()
    }

    pub(crate) fn route_to_primary(&self) -> Result<()> {
        let socket = &self.primary()?.socket;
        for link in self.store_links.iter().chain(&self.replication) {
            link.route_to(Upstream::Unix(socket.clone()));
        }
        Ok(())
    }

    /// A failover of a cluster that no fault asked for.
    pub(crate) async fn unasked_failover(&self) -> Result<Option<Record>> {
        match &self.cluster {
            Some(cluster) => cluster.unasked_failover(self).await,
            None => Ok(None),
        }
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
        if self.cluster.is_some() {
            cluster::until_whole(self).await?;
        }
        self.wait_until_serving().await
    }
}
