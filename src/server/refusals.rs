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
/// Lines in this period that say why connections were refused: enough for an operator to see the cause.
const CONNECTION_LINES_MAX: u32 = 20;

/// What the bounds have refused.
#[derive(Debug)]
pub(super) struct Refusals {
    metrics: Arc<ConnectionMetrics>,
    /// By bound.
    unlogged: Box<[Seldom]>,
    connections: Seldom,
}

impl Refusals {
    pub(super) fn new(metrics: Arc<ConnectionMetrics>) -> Self {
        let unlogged = Bound::ALL.iter().map(|_| Seldom::new(LOG_PERIOD)).collect();
        Self { metrics, unlogged, connections: Seldom::with_lines(CONNECTION_LINES_MAX, LOG_PERIOD) }
    }

    /// Counts a refusal, of something that came from `peer`.
    pub(super) fn count(&self, bound: Bound, peer: Option<Peer>) {
        self.metrics.refusals.of(bound).inc();
        if let Some(refused) = self.unlogged[bound.index()].count(1) {
            let peer = peer.map(tracing::field::display);
            tracing::warn!(bound = bound.text(), refused, peer, "a bound of the server was reached");
        }
    }

    /// Counts a connection that speaks another protocol.
    pub(super) fn protocol(&self, peer: Peer, why: &str) {
        self.metrics.refusals.of(Bound::Protocol).inc();
        self.log_connection(peer, why);
    }

    /// Logs why a connection was refused. That is seldom a fault of this server, so the level is `info`.
    pub(super) fn log_connection(&self, peer: Peer, why: &str) {
        if let Some(refused) = self.connections.count(1) {
            let suppressed = (refused > 1).then_some(refused - 1);
            tracing::info!(%peer, why, suppressed, "connection refused");
        }
    }
}
