//! Counts what the bounds of this server refuse, and tells the operator without flooding the log.

use crate::{
    api::peer::Peer,
    telemetry::metrics::{Bound, ConnectionMetrics, Label},
};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// How often the log says that a bound refuses.
const LOG_PERIOD: Duration = Duration::from_secs(10);

/// What the bounds have refused.
#[derive(Debug)]
pub(super) struct Refusals {
    metrics: Arc<ConnectionMetrics>,
    /// By bound.
    unlogged: Box<[Mutex<Unlogged>]>,
}

#[derive(Debug, Default)]
struct Unlogged {
    /// Since the last line in the log.
    count: u64,
    logged: Option<Instant>,
}

impl Refusals {
    pub(super) fn new(metrics: Arc<ConnectionMetrics>) -> Self {
        Self { metrics, unlogged: Bound::ALL.iter().map(|_| Mutex::default()).collect() }
    }

    /// Counts a refusal, of something that came from `peer`.
    pub(super) fn count(&self, bound: Bound, peer: Option<Peer>) {
        self.metrics.refusals.of(bound).inc();
        let mut unlogged = self.unlogged[bound.index()].lock();
        unlogged.count += 1;
        if unlogged.logged.is_none_or(|logged| logged.elapsed() >= LOG_PERIOD) {
            unlogged.logged = Some(Instant::now());
            let refused = std::mem::take(&mut unlogged.count);
            let peer = peer.map(tracing::field::display);
            tracing::warn!(bound = bound.text(), refused, peer, "a bound of the server is reached");
        }
    }
}
