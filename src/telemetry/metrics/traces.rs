//! The export of traces.

use super::{
    label::{Counters, label},
    register,
};
use prometheus_client::{metrics::counter::Counter, registry::Registry};

label! {
    /// Why a span is lost.
    SpanLoss = "reason" {
        /// Too many spans wait for their export.
        QueueFull = "queue_full",
        /// The collector did not take it.
        ExportFailed = "export_failed",
    }
}

/// The export of traces.
#[derive(Debug)]
pub struct TraceMetrics {
    /// Exports that failed.
    pub export_failures: Counter,
    /// Spans that no collector got.
    pub spans_lost: Counters<SpanLoss>,
}

impl TraceMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let it = registry;
        Self {
            export_failures: register(it, "trace_export_failures", "Exports of traces that failed"),
            spans_lost: Counters::register(
                it,
                "trace_spans_lost",
                "Spans that were not exported: the queue for the collector was full, or the export failed",
            ),
        }
    }
}
