//! Failovers of the primary of the slot in a Redis Cluster: its replica is elected because the primary is dead, stopped
//! or cut off from the other members, or an operator asks for it.

use super::{FaultContext, FaultKind, FaultOutcome};
use crate::{
    clock,
    topology::cluster::{cut_off, is_promoted, partner},
};
use anyhow::{Context, Result};
use tokio::time::sleep;

pub(super) async fn fail_over(context: &FaultContext<'_>) -> Result<FaultOutcome> {
    let deployment = context.deployment;
    let number = deployment.primary_number();
    let heir = partner(number).context("the primary has no replica")?;
    let (old, new) = (&deployment.redis[number], &deployment.redis[heir]);
    let until = clock::now() + clock::nanos(context.fault.hold);
    match context.fault.kind {
        FaultKind::PrimaryKilled => old.kill().await?,
        FaultKind::PrimaryStopped => old.pause().await?,
        FaultKind::PrimaryCutOff => cut_off(deployment, number, true),
        _ => {
            new.ask(&["CLUSTER", "FAILOVER"]).await?;
        }
    }
    let promoted = is_promoted(new).await;
    if promoted {
        deployment.set_primary(heir);
    }
    sleep(clock::until(until)).await;
    match context.fault.kind {
        FaultKind::PrimaryKilled => old.ensure_running().await?,
        FaultKind::PrimaryStopped => old.resume().await?,
        FaultKind::PrimaryCutOff => cut_off(deployment, number, false),
        _ => {}
    }
    Ok(if promoted {
        FaultOutcome::Hit(format!("{} instead of {}", new.name, old.name))
    } else {
        FaultOutcome::Missed(format!("{} was not promoted", new.name))
    })
}
