//! Like one Redis, with a replica that is promoted by hand, as an operator or Sentinel does. Data that has not reached
//! the replica is lost.

use super::{Deployment, redis};
use crate::{config::Config, faults::FaultKind, proxy::Link, pump::Upstream, redis::Redis, wall::WallClock};
use anyhow::{Result, bail};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

pub(super) fn kinds() -> Vec<FaultKind> {
    use FaultKind::*;
    let mut kinds = redis::kinds();
    // The replica would copy an empty or older primary; this topology tests promotions.
    kinds.retain(|kind| !matches!(kind, RedisEmpty | RedisOlder));
    kinds.extend([Promotion, PromotionLagging, ReplicaKilled, ReplicaLinkHeld, ReplicaLinkDelayed, ReplicaLinkReset]);
    kinds
}

pub(super) async fn build(config: &Config) -> Result<Deployment> {
    let wall = Arc::new(WallClock::new(&config.folder)?);
    let primary = Redis::start("redis-0", &config.folder, &wall.env()).await?;
    let replica = Redis::start("redis-1", &config.folder, &wall.env()).await?;
    let replication = Link::new("replica->primary".to_owned()).await?;
    replication.route_to(Upstream::Unix(primary.socket.clone()));
    follow(&replica, &replication).await?;
    let mut deployment = redis::with_servers(config, vec![primary, replica], wall).await?;
    deployment.replication = Some(replication);
    Ok(deployment)
}

/// Makes it a replica of the link's destination, and waits for the initial synchronisation.
pub(crate) async fn follow(replica: &Redis, link: &Link) -> Result<()> {
    replica.ask(&["REPLICAOF", "127.0.0.1", &link.port.to_string()]).await?;
    for _ in 0..1_000 {
        if replica.info("replication", "master_link_status").await? == "up" {
            return Ok(());
        }
        sleep(Duration::from_millis(10)).await;
    }
    bail!("the replica does not follow")
}
