//! The share of one stream in the metrics.

use crate::{
    domain::{lease::LeaseEnd, outcome::Fate},
    locks::measure,
    telemetry::metrics::{LockMetrics, Renewal, StreamKind},
};
use std::sync::Arc;
use tokio::time::Instant;

/// What one stream adds to the metrics. Dropped, the stream and its leases count no more.
pub(super) struct Measured {
    metrics: Arc<LockMetrics>,
    kind: StreamKind,
    kept: i64,
    /// The last beat that was sent before a lease expired; 0 if none did, or a later beat was answered.
    expired_at_beat: u64,
}

impl Measured {
    pub(super) fn open(metrics: Arc<LockMetrics>, kind: StreamKind) -> Self {
        metrics.streams.of(kind).inc();
        Self { metrics, kind, kept: 0, expired_at_beat: 0 }
    }

    /// The stream keeps another lease.
    pub(super) fn added(&mut self) {
        self.kept += 1;
        self.metrics.kept_leases.inc();
    }

    /// The stream keeps a lease less.
    pub(super) fn removed(&mut self) {
        self.kept -= 1;
        self.metrics.kept_leases.dec();
    }

    /// A lease has ended, when `sent` was the last beat. The stream kept it since then, if it ever did.
    pub(super) fn ended(&mut self, since: Option<Instant>, fate: Fate, sent: u64) {
        if let Some(since) = since {
            self.metrics.hold.observe(since.elapsed().as_secs_f64());
        }
        if fate == Fate::Ended(LeaseEnd::Expired) {
            self.expired_at_beat = sent;
        }
        measure::loss(&self.metrics, fate, since.is_some());
    }

    pub(super) fn renewal(&self, renewal: Renewal) {
        self.metrics.renewals.of(renewal).inc();
    }

    /// The client answered this beat.
    pub(super) fn answered(&mut self, beat: u64) {
        if beat <= self.expired_at_beat {
            self.metrics.late_answers.inc();
        } else {
            self.expired_at_beat = 0;
        }
    }

    /// Whether the answer to this beat is known to be late.
    pub(super) fn is_late(&self, beat: u64) -> bool {
        beat <= self.expired_at_beat
    }

    /// Renewals for the answer to this beat are done. If they were the first to find that a lease had expired, the
    /// answer was late.
    pub(super) fn renewed(&self, beat: u64, was_late: bool) {
        if !was_late && self.is_late(beat) {
            self.metrics.late_answers.inc();
        }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.metrics.streams.of(self.kind).dec();
        self.metrics.kept_leases.dec_by(self.kept);
    }
}
