//! Faults of one node of a quorum, of which a majority is enough. All promises hold.

use super::{
    FaultContext, FaultKind, FaultOutcome,
    data::{be_full, forget_scripts, kill_connections},
    process::{Data, restart, stop},
};
use crate::{redis::Redis, rng::Rng};
use anyhow::{Result, ensure};
use std::time::Duration;
use tokio::time::sleep;

pub(super) async fn inject(context: &FaultContext<'_>) -> Result<FaultOutcome> {
    let (nodes, hold) = (&context.deployment.redis, context.fault.hold);
    let node = &nodes[context.fault.target % nodes.len()];
    match context.fault.kind {
        FaultKind::NodeEmpty => restart(node, Data::Gone, hold).await?,
        FaultKind::NodeOlder => restart(node, Data::Older, hold).await?,
        FaultKind::NodeStopped => stop(node, hold).await?,
        FaultKind::NodeFlushed => {
            node.ask(&["FLUSHALL"]).await?;
        }
        FaultKind::NodeScriptFlush => forget_scripts(node).await?,
        FaultKind::NodeKillNormal => return kill_connections(node, "normal").await,
        FaultKind::NodeOutOfMemory => be_full(node, hold).await?,
        FaultKind::NodeRenamed => {
            let is_at_once = Rng::new(context.fault.draw, 3).chance(50);
            change_replication_id(node, (!is_at_once).then_some(hold)).await?;
        }
        _ => restart(node, Data::Kept, hold).await?,
    }
    Ok(FaultOutcome::Hit(node.name.clone()))
}

/// Redis changes its replication id when it stops being a replica. Connections stay open, and so does the data: its
/// primary does not exist. At once, or as a replica for some time, which refuses writes.
async fn change_replication_id(node: &Redis, hold: Option<Duration>) -> Result<()> {
    let before = node.info("replication", "master_replid").await?;
    // Port 1 has no listener.
    let (demote, promote) = (["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]);
    if let Some(hold) = hold {
        node.ask(&demote).await?;
        sleep(hold).await;
        node.ask(&promote).await?;
    } else {
        node.ask_all(&[&["MULTI"], &demote, &promote, &["EXEC"]]).await?;
    }
    ensure!(node.info("replication", "master_replid").await? != before, "the replication id is the same");
    Ok(())
}
