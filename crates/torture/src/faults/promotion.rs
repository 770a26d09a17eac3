//! Promotes the replica and routes the servers to it. The old primary, once it is back, becomes its replica and loses
//! its own changes. Without lag little or nothing is lost; with the replication link held, seconds are.

use super::{FaultContext, FaultKind, FaultOutcome, link::LAG};
use crate::topology::follow;
use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

pub(super) async fn inject(context: &FaultContext<'_>) -> Result<FaultOutcome> {
    let deployment = context.deployment;
    let link = deployment.replication.as_ref().context("no replica here")?;
    let (old, new) = (deployment.primary()?, deployment.replica()?);
    let offset = async || -> Result<i64> { Ok(new.info("replication", "slave_repl_offset").await?.parse()?) };
    let mut lost = 0;
    if context.fault.kind == FaultKind::PromotionLagging {
        link.hold();
        sleep(LAG + context.fault.hold).await;
        let written: i64 = old.info("replication", "master_repl_offset").await?.parse()?;
        lost = written - offset().await?;
    }
    old.kill().await?;
    new.ask(&["REPLICAOF", "NO", "ONE"]).await?;
    ensure!(new.info("replication", "role").await? == "master", "the replica was not promoted");
    deployment.switch_primary()?;
    link.heal();
    sleep(context.fault.hold / 4).await;
    old.ensure_running().await?;
    follow(old, link).await?;
    let target = format!("{} instead of {}, {lost} bytes behind", new.name, old.name);
    if context.fault.kind == FaultKind::PromotionLagging && lost == 0 {
        return Ok(FaultOutcome::Missed("replication did not lag".to_owned()));
    }
    Ok(FaultOutcome::Hit(target))
}
