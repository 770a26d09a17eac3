//! The report of a majority of several nodes that lost its memory: an operator decides how to continue.

use super::QuorumStore;
use crate::{store::quorum::nodes::client::NodeClient, sync::Mutex, telemetry::seldom::Seldom};
use std::time::Duration;
use tokio::time::Instant;

/// For so long nodes that lost their memory one after the other may be seen without it at a time.
const LOST_FOR: Duration = Duration::from_secs(3);
/// How often it is logged.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// Whether a majority has lost its memory of some partition, and since when.
pub(super) struct Forgotten {
    since: Mutex<Option<Instant>>,
    seldom: Seldom,
}

impl Default for Forgotten {
    fn default() -> Self {
        Self { since: Mutex::default(), seldom: Seldom::new(LOG_PERIOD) }
    }
}

impl<C: NodeClient> QuorumStore<C> {
    /// Why no majority keeps a partition, if its nodes have lost their memory.
    pub(super) fn forgotten(&self, partition: usize) -> Option<String> {
        let nodes = self.forgotten_nodes(partition)?;
        Some(format!(
            "{nodes} lost their memory of it, so no majority has the locks: see fencepost quorum status, and continue \
             with fencepost quorum rebuild"
        ))
    }

    /// Logs a majority that has lost its memory.
    pub(super) fn report_forgotten(&self) {
        let nodes = (0..self.parts.len()).find_map(|partition| self.forgotten_nodes(partition));
        let since = {
            let mut since = self.forgotten.since.lock();
            *since = nodes.is_some().then(|| since.unwrap_or_else(Instant::now));
            *since
        };
        if let Some(nodes) = nodes
            && since.is_some_and(|since| since.elapsed() >= LOST_FOR)
            && self.forgotten.seldom.count(1).is_some()
        {
            let change =
                "check that no Redis is missing that may still have the locks, then run fencepost quorum rebuild";
            tracing::error!(
                nodes,
                change,
                "a majority of the redis nodes lost its memory: their locks are unavailable"
            );
        }
    }

    fn forgotten_nodes(&self, partition: usize) -> Option<String> {
        let partition = u16::try_from(partition).ok()?;
        let nodes = self.membership.election.lock().forgotten_by(partition, Instant::now());
        let names: Vec<&str> = nodes.iter().map(|node| &*self.driver.mark.members[*node]).collect();
        (!names.is_empty()).then(|| names.join(" and "))
    }
}
