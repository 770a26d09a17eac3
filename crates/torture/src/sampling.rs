//! What the nodes of a quorum keep, read from them directly while the servers write it.

use crate::{clock, redis::Redis, resp::Answer, topology::Deployment};
use anyhow::{Context, Result, bail};
use fencepost_torture::{history::Record, nodes::Kept};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

/// For each partition with a header: its number, whether the node votes, the batch, and what has to be the same
/// wherever that batch is. The records are sorted by their hashes: each node scans them in an order of its own.
const SCRIPT: &str = include_str!("sampling.lua");

const PERIOD: Duration = Duration::from_millis(250);
/// A node that is stopped does not answer.
const ANSWER_MAX: Duration = Duration::from_millis(200);
/// How long it may take until all nodes have the same batch at once. Only servers write, with each heartbeat.
const ALIKE_MAX: Duration = Duration::from_secs(10);

/// Reads all nodes again and again. Never ends.
pub(crate) async fn run(deployment: &Deployment, records: mpsc::UnboundedSender<Record>) {
    loop {
        for kept in all(deployment).await.into_iter().flatten().flatten() {
            // Nobody listens any more: this is about to be dropped.
            let _ = records.send(Record::Kept(kept));
        }
        sleep(PERIOD).await;
    }
}

/// Reads all nodes until each partition was seen with one batch at all of them, or no longer.
pub(crate) async fn until_alike(deployment: &Deployment) -> Vec<Record> {
    let partitions = deployment.quorum.as_ref().map_or(0, |quorum| usize::from(quorum.partitions));
    let (bound, mut alike, mut records) = (clock::now() + clock::nanos(ALIKE_MAX), BTreeSet::new(), Vec::new());
    while alike.len() < partitions && clock::now() < bound {
        let mut nodes: BTreeMap<(u16, String), usize> = BTreeMap::new();
        for kept in all(deployment).await.into_iter().flatten().flatten() {
            *nodes.entry((kept.partition, kept.batch.clone())).or_default() += 1;
            records.push(Record::Kept(kept));
        }
        alike.extend(nodes.into_iter().filter(|(_, nodes)| *nodes == deployment.redis.len()).map(|((of, _), _)| of));
        sleep(PERIOD / 4).await;
    }
    records
}

/// Reads all nodes, at the same time.
pub(crate) async fn all(deployment: &Deployment) -> Vec<Result<Vec<Kept>>> {
    let partitions = deployment.quorum.as_ref().map_or(0, |quorum| quorum.partitions);
    let mut reading = Vec::new();
    for node in &deployment.redis {
        reading.push(async move { timeout(ANSWER_MAX, of(node, partitions)).await? });
    }
    futures_util::future::join_all(reading).await
}

async fn of(node: &Redis, partitions: u16) -> Result<Vec<Kept>> {
    let answer = node.ask(&["EVAL", SCRIPT, "0", &partitions.to_string()]).await?;
    let at = clock::now();
    answer.list().into_iter().map(|partition| kept(&node.name, at, partition)).collect()
}

fn kept(node: &str, at: u64, answer: Answer) -> Result<Kept> {
    let [partition, votes, batch, content] = &answer.list()[..] else { bail!("four values") };
    let partition = u16::try_from(partition.int()).context("a partition")?;
    Ok(Kept {
        node: node.to_owned(),
        partition,
        at,
        votes: votes.int() == 1,
        batch: batch.text(),
        content: content.text(),
    })
}
