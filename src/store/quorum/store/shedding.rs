//! What was refused because too many acquires wait: counted, and told in the log.

use super::QuorumStore;
use crate::store::{lateness::Shed, quorum::nodes::client::NodeClient};
use prometheus_client::metrics::counter::Counter;
use std::time::Duration;

/// How often the log says so.
pub(super) const SHED_LOG_PERIOD: Duration = Duration::from_secs(60);

impl<C: NodeClient> QuorumStore<C> {
    /// Counts what a leader here refused.
    pub(super) fn note_shed(&self, shed: Shed) {
        let metrics = &self.parts.metrics.shed;
        self.count_shed(shed, &metrics.age, &metrics.length);
    }

    /// Counts what was refused here instead of being forwarded.
    pub(super) fn note_not_forwarded(&self) {
        let metrics = &self.parts.metrics.shed;
        self.count_shed(self.delivery.transport.take_shed(), &metrics.forward_age, &metrics.forward_length);
    }

    fn count_shed(&self, Shed { late, full }: Shed, age: &Counter, length: &Counter) {
        if late + full == 0 {
            return;
        }
        age.inc_by(late);
        length.inc_by(full);
        if let Some(refused) = self.parts.shed_log.count(late + full) {
            let advice = "find the client that acquires so often, or give redis more cpu";
            tracing::warn!(refused, advice, "acquires come faster than redis writes grants, so some are refused");
        }
    }
}
