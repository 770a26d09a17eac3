//! Counts what the bounds of this server refuse, and tells the operator without flooding the log.

use crate::{
    api::peer::Peer,
    telemetry::{
        metrics::{Bound, ConnectionMetrics, Label},
        seldom::Seldom,
    },
};
use std::{sync::Arc, time::Duration};

/// How often the log says that a bound refuses.
const LOG_PERIOD: Duration = Duration::from_secs(10);

/// What the bounds have refused.
#[derive(Debug)]
pub(super) struct Refusals {
    metrics: Arc<ConnectionMetrics>,
    /// By bound.
    unlogged: Box<[Seldom]>,
}

impl Refusals {
    pub(super) fn new(metrics: Arc<ConnectionMetrics>) -> Self {
        Self { metrics, unlogged: Bound::ALL.iter().map(|_| Seldom::new(LOG_PERIOD)).collect() }
    }

    /// Counts a refusal, of something that came from `peer`.
    pub(super) fn count(&self, bound: Bound, peer: Option<Peer>) {
        self.metrics.refusals.of(bound).inc();
        if let Some(refused) = self.unlogged[bound.index()].count(1) {
            let peer = peer.map(tracing::field::display);
            tracing::warn!(bound = bound.text(), refused, peer, "a bound of the server is reached");
        }
    }
}
