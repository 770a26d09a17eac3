//! The way of spans to the collector. Counts those that are lost on it, and tells the operator.
//!
//! The SDK drops spans in silence when its queue is full. So the queue is bounded here, with the same bound: a span
//! that is passed on always finds room.

use super::{
    metrics::{Label, SpanLoss, TraceMetrics},
    seldom::Seldom,
};
use opentelemetry::Context;
use opentelemetry_otlp::SpanExporter as OtlpExporter;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{
        BatchConfigBuilder, BatchSpanProcessor, OTEL_BSP_MAX_QUEUE_SIZE, OTEL_BSP_MAX_QUEUE_SIZE_DEFAULT, Span,
        SpanData, SpanExporter, SpanProcessor,
    },
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// How often the log says that spans are lost, for each reason.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// What the queue and the exporter share.
#[derive(Debug)]
struct Way {
    metrics: Arc<TraceMetrics>,
    /// Spans that wait for their export.
    queued: AtomicUsize,
    queue_max: usize,
    /// By reason.
    untold: Vec<Seldom>,
}

impl Way {
    /// Counts spans that are lost. Returns how many the log is to tell of now.
    fn lost(&self, reason: SpanLoss, spans: usize) -> Option<u64> {
        let spans = u64::try_from(spans).unwrap_or(u64::MAX);
        self.metrics.spans_lost.of(reason).inc_by(spans);
        self.untold[reason.index()].count(spans)
    }
}

/// The queue of spans in front of the exporter.
#[derive(Debug)]
pub(super) struct Queue {
    way: Arc<Way>,
    batches: BatchSpanProcessor,
}

impl Queue {
    /// A queue as long as `OTEL_BSP_MAX_QUEUE_SIZE` says. Needs a running tokio runtime.
    pub(super) fn before(exporter: OtlpExporter, metrics: Arc<TraceMetrics>) -> Self {
        let chosen = std::env::var(OTEL_BSP_MAX_QUEUE_SIZE).ok().and_then(|size| size.parse().ok());
        let queue_max = chosen.unwrap_or(OTEL_BSP_MAX_QUEUE_SIZE_DEFAULT);
        let untold = SpanLoss::ALL.iter().map(|_| Seldom::new(LOG_PERIOD)).collect();
        let way = Arc::new(Way { metrics, queued: AtomicUsize::new(0), queue_max, untold });
        let config = BatchConfigBuilder::default().with_max_queue_size(queue_max).build();
        let batches = BatchSpanProcessor::new(Exporter { exporter, way: way.clone() }, config);
        Self { way, batches }
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        let way = &*self.way;
        let room = |queued: usize| (queued < way.queue_max).then_some(queued + 1);
        if way.queued.fetch_update(Relaxed, Relaxed, room).is_ok() {
            self.batches.on_end(span);
        } else if let Some(lost) = way.lost(SpanLoss::QueueFull, 1) {
            tracing::warn!(
                lost,
                queue_max = way.queue_max,
                "spans are lost: the collector is slower than the server. Check that the collector runs and keeps up; \
                 sample fewer traces (OTEL_TRACES_SAMPLER), or enlarge the queue (OTEL_BSP_MAX_QUEUE_SIZE)"
            );
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// Exports the spans that leave the queue.
#[derive(Debug)]
struct Exporter {
    exporter: OtlpExporter,
    way: Arc<Way>,
}

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let (way, spans) = (&*self.way, batch.len());
        // They have left the queue of the SDK, which is never longer than this number says.
        way.queued.fetch_sub(spans, Relaxed);
        let exported = self.exporter.export(batch).await;
        if let Err(error) = &exported {
            way.metrics.export_failures.inc();
            if let Some(lost) = way.lost(SpanLoss::ExportFailed, spans) {
                tracing::warn!(
                    lost,
                    %error,
                    "spans are lost: the export to the collector failed. Check that the collector runs, and that \
                     --otlp-endpoint names its OTLP/gRPC port without TLS"
                );
            }
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
