//! Two or three servers on one Redis with an append-only file.

use super::Deployment;
use crate::{config::Config, faults::FaultKind, proxy::Link, redis::Redis, server::Server, wall::WallClock};
use anyhow::Result;
use std::sync::Arc;

pub(super) fn kinds() -> Vec<FaultKind> {
    use FaultKind::*;
    vec![
        RedisKilled,
        RedisEmpty,
        RedisOlder,
        RedisStopped,
        ServerKilled,
        ServerStopped,
        ServerDrained,
        ClientKilled,
        ClientStopped,
        ClientLinkHeld,
        ClientLinkHeldBack,
        ClientLinkDelayed,
        ClientLinkReset,
        ClientLinkHalfOpen,
        StoreLinkHeld,
        StoreLinkHeldBack,
        StoreLinkDelayed,
        StoreLinkReset,
        StoreLinkHalfOpen,
        ReplyDropped,
        StoreReplyDropped,
        FlushAll,
        ScriptFlush,
        KillPubsub,
        KillNormal,
        OutOfMemory,
        ClockForward,
        ClockBack,
        ForceRelease,
    ]
}

pub(super) async fn build(config: &Config) -> Result<Deployment> {
    let wall = Arc::new(WallClock::new(&config.folder)?);
    let redis = Redis::start("redis-0", &config.folder, &wall.env()).await?;
    with_servers(config, vec![redis], wall).await
}

/// Starts the servers of a deployment whose first Redis is the primary.
pub(super) async fn with_servers(config: &Config, redis: Vec<Redis>, wall: Arc<WallClock>) -> Result<Deployment> {
    let mut deployment = Deployment::new(Vec::new(), Vec::new(), redis);
    deployment.wall = Some(wall);
    for index in 0..config.topology.servers(config.seed) {
        deployment.store_links.push(Link::new(format!("server {index}->redis")).await?);
    }
    deployment.route_to_primary()?;
    for (index, link) in deployment.store_links.iter().enumerate() {
        let store = format!("redis://127.0.0.1:{}", link.port);
        let server = Server::start(&config.server_bin, index, &store, &config.folder, &[]).await?;
        deployment.servers.push(server);
    }
    Ok(deployment)
}
