//! What was refused because too many acquires wait: counted, and told in the log.

use super::QuorumStore;
use crate::store::quorum::{nodes::client::NodeClient, proposer::leading::Shed};
use std::time::Duration;

/// How often the log says so.
pub(super) const SHED_LOG_PERIOD: Duration = Duration::from_secs(60);

impl<C: NodeClient> QuorumStore<C> {
    /// Counts what a leader here refused.
    pub(super) fn note_shed(&self, shed: Vec<(Shed, u64)>) {
        let metrics = &self.parts.metrics.shed;
        for (why, count) in shed {
            match why {
                Shed::Age => metrics.age.inc_by(count),
                Shed::Length => metrics.length.inc_by(count),
            };
            self.log_shed(count);
        }
    }

    /// Counts what was refused here instead of being forwarded.
    pub(super) fn note_not_forwarded(&self) {
        let (late, full) = self.delivery.transport.take_shed();
        if late + full > 0 {
            self.parts.metrics.shed.forward_age.inc_by(late);
            self.parts.metrics.shed.forward_length.inc_by(full);
            self.log_shed(late + full);
        }
    }

    fn log_shed(&self, count: u64) {
        if let Some(refused) = self.parts.shed_log.count(count) {
            let advice = "find the client that acquires so often, or give redis more cpu";
            tracing::warn!(refused, advice, "acquires come faster than redis writes grants, so some are refused");
        }
    }
}
