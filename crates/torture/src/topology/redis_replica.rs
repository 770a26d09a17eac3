//! As with one Redis, and a replica of it that is promoted by hand, as an operator or Sentinel does: what had not
//! reached it is lost.

use super::{World, redis};
use crate::{config::Config, faults::Kind, proxy::Link, pump::Upstream, redis::Redis, wall::WallClock};
use anyhow::{Result, bail};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

pub(super) fn kinds() -> Vec<Kind> {
    use Kind::*;
    let mut kinds = redis::kinds();
    // An empty or an old primary would have its replica follow; what is of interest here is the promotion.
    kinds.retain(|kind| !matches!(kind, RedisEmpty | RedisOlder));
    kinds.extend([Promotion, PromotionLagging, ReplicaKilled, ReplicaLinkHeld, ReplicaLinkDelayed, ReplicaLinkReset]);
    kinds
}

pub(super) async fn build(config: &Config) -> Result<World> {
    let wall = Arc::new(WallClock::new(&config.folder)?);
    let primary = Redis::start("redis-0", &config.folder, &wall.env()).await?;
    let replica = Redis::start("redis-1", &config.folder, &wall.env()).await?;
    let replication = Link::new("replica->primary".to_owned()).await?;
    replication.lead_to(Upstream::Unix(primary.socket.clone()));
    follow(&replica, &replication).await?;
    let mut world = redis::with_servers(config, vec![primary, replica], wall).await?;
    world.replication = Some(replication);
    Ok(world)
}

/// Makes it a replica of what the link leads to, and waits until it has all that is there.
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
