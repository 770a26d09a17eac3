//! Moves the slot to another primary of its Redis Cluster under load, in the steps of `redis-cli --cluster reshard`.

use super::{FaultContext, FaultOutcome};
use crate::{
    redis::Redis,
    topology::cluster::{SLOT, is_promoted, other_primary},
};
use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

/// How many keys are moved at once.
const KEYS_AT_ONCE: &str = "10";

pub(super) async fn move_slot(context: &FaultContext<'_>) -> Result<FaultOutcome> {
    let (deployment, slot) = (context.deployment, SLOT.to_string());
    let (from, to) = (deployment.primary_number(), other_primary(deployment).await?);
    let (source, target) = (&deployment.redis[from], &deployment.redis[to]);
    let (source_id, target_id) = (id(source).await?, id(target).await?);
    target.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source_id]).await?;
    source.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target_id]).await?;
    // For a time nothing has moved, and for a time some keys have.
    sleep(context.fault.hold / 2).await;
    let mut moved = move_keys(source, target).await?;
    sleep(context.fault.hold / 2).await;
    loop {
        let more = move_keys(source, target).await?;
        if more == 0 {
            break;
        }
        moved += more;
    }
    // The target first: a slot that nobody claims would stop the cluster.
    for member in [target, source] {
        member.ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &target_id]).await?;
    }
    ensure!(is_promoted(target).await, "{} does not have the slot", target.name);
    deployment.set_primary(to);
    Ok(if moved == 0 {
        FaultOutcome::Missed("the slot was empty".to_owned())
    } else {
        FaultOutcome::Hit(format!("{moved} keys from {} to {}", source.name, target.name))
    })
}

async fn id(member: &Redis) -> Result<String> {
    Ok(member.ask(&["CLUSTER", "MYID"]).await?.text())
}

/// Moves some keys, and returns how many.
async fn move_keys(source: &Redis, target: &Redis) -> Result<usize> {
    let keys = source.ask(&["CLUSTER", "GETKEYSINSLOT", &SLOT.to_string(), KEYS_AT_ONCE]).await?.list();
    let keys: Vec<String> = keys.iter().map(crate::resp::Answer::text).collect();
    if keys.is_empty() {
        return Ok(0);
    }
    let port = target.wires.as_ref().context("no links to it")?.port.port.to_string();
    let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
    words.extend(keys.iter().map(String::as_str));
    // Keys that have expired meanwhile are not there.
    let answer = source.ask(&words).await?.text();
    ensure!(["OK", "NOKEY"].contains(&answer.as_str()), "MIGRATE: {answer}");
    Ok(keys.len())
}
