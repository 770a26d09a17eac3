//! Reasons for which nodes reject requests, for the errors of calls that wait for a majority and for the log.

use crate::{store::quorum::paxos::ballot::majority, sync::Mutex, telemetry::seldom::Seldom};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Health of a node are logged so often.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// A request that was refused is asked again within a second.
const REFUSED_LATELY: Duration = Duration::from_secs(3);

/// What is wrong with each node now, as far as this server knows.
#[derive(Debug)]
pub(crate) struct Health(Box<[OfNode]>);

#[derive(Debug)]
struct OfNode {
    /// Nothing that was sent to it last was carried out.
    lost: Mutex<Option<String>>,
    /// Why it did not carry out requests about partitions lately, and when. It carries out others meanwhile.
    refused: Mutex<BTreeMap<usize, (Instant, String)>>,
    seldom: Seldom,
}

impl Health {
    pub(crate) fn of(nodes: usize) -> Self {
        let of_node = || OfNode { lost: Mutex::default(), refused: Mutex::default(), seldom: Seldom::new(LOG_PERIOD) };
        Self((0..nodes).map(|_| of_node()).collect())
    }

    /// A node answered nothing of what was sent to it.
    pub(crate) fn lost(&self, node: usize, why: &str) {
        let it = &self.0[node];
        *it.lost.lock() = Some(why.to_owned());
        if it.seldom.count(1).is_some() {
            tracing::warn!(node, why, "redis node does not serve requests");
        }
    }

    /// A node did not carry out a request about a partition.
    pub(crate) fn refused(&self, node: usize, partition: usize, why: &str) {
        self.0[node].refused.lock().insert(partition, (Instant::now(), format!("partition {partition}: {why}")));
    }

    /// A node answered.
    pub(crate) fn answered(&self, node: usize) {
        self.0[node].lost.lock().take();
    }

    fn why(&self, node: usize, mut partitions: impl Iterator<Item = usize>) -> Option<String> {
        let it = &self.0[node];
        if let Some(lost) = &*it.lost.lock() {
            return Some(lost.clone());
        }
        let refused = it.refused.lock();
        let lately = |partition| refused.get(&partition).filter(|(at, _)| at.elapsed() < REFUSED_LATELY);
        partitions.find_map(lately).map(|(_, why)| why.clone())
    }

    /// What is wrong with each node, if so few are left that no majority can answer for one of these partitions.
    pub(crate) fn no_majority(
        &self,
        names: &[Arc<str>],
        partitions: &(impl Iterator<Item = usize> + Clone),
    ) -> Option<String> {
        let why = |(node, name)| Some(format!("{name}: {}", self.why(node, partitions.clone())?));
        let each: Vec<_> = names.iter().enumerate().filter_map(why).collect();
        (names.len() - each.len() < majority(names.len())).then(|| each.join("; "))
    }
}
