//! The metrics of a server, as OpenMetrics text.
//!
//! Each group is a struct of handles that the code holds which moves them: no operation looks up a metric by its name
//! or labels. No label has a value that clients choose, so the number of time series is bounded. Callers
//! with a quota are named up to a bound.

mod access;
mod audit;
mod calls;
mod connections;
mod label;
mod locks;
mod partitions;
mod process;
mod quota;
mod runtime;
mod store;
mod traces;

pub use access::{AccessMetrics, AccessMode, AccessReload, Denial};
pub use audit::AuditMetrics;
pub use calls::{CANCELLED, CODES, CallMetrics, Method, OperationKind, UNKNOWN};
pub use connections::{Bound, ConnectionMetrics, TlsHandshake, TlsReload};
pub use label::{ByLabel, Counters, Gauges, Label};
pub use locks::{AcquireFailure, Granted, LockMetrics, Loss, Renewal, StreamKind};
pub use partitions::PartitionMetrics;
pub use quota::QuotaMetrics;
pub use store::{RoundTrip, StoreFailure, StoreMetrics};
pub use traces::{SpanLoss, TraceMetrics};

use prometheus_client::{
    encoding::text,
    metrics::{
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::{Metric, Registry, Unit},
};
use std::{fmt, sync::Arc};

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The prefix of all metrics but those of the process, which have names that all programs use.
const PREFIX: &str = "fencepost";

/// All metrics of a server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Locks, leases and waiting calls.
    pub locks: Arc<LockMetrics>,
    /// The store.
    pub store: Arc<StoreMetrics>,
    /// The partitions of a store that several Redis servers keep.
    pub partitions: Arc<PartitionMetrics>,
    /// Calls and operations.
    pub calls: Arc<CallMetrics>,
    /// Connections.
    pub connections: Arc<ConnectionMetrics>,
    /// The access file.
    pub access: Arc<AccessMetrics>,
    /// Quotas.
    pub quotas: Arc<QuotaMetrics>,
    /// The audit log.
    pub audit: Arc<AuditMetrics>,
    /// Whether the server drains.
    pub draining: Gauge,
    /// The export of traces.
    pub traces: Arc<TraceMetrics>,
}

impl Metrics {
    /// Metrics that nothing has moved yet. `build` labels `fencepost_build_info`. Within a runtime, its figures are
    /// among the metrics.
    pub fn new(build: Vec<(&'static str, String)>) -> Self {
        let mut registry = Registry::default();
        process::register(&mut registry);
        let own = registry.sub_registry_with_prefix(PREFIX);
        own.register("build", "The build of this server and the kind of its store", Info::new(build));
        runtime::register(own);
        let (locks, store) = (Arc::new(LockMetrics::register(own)), Arc::new(StoreMetrics::register(own)));
        let partitions = Arc::new(PartitionMetrics::register(own));
        let calls = Arc::new(CallMetrics::register(own));
        let connections = Arc::new(ConnectionMetrics::register(own));
        let access = Arc::new(AccessMetrics::register(own));
        let quotas = Arc::new(QuotaMetrics::register(own));
        let audit = Arc::new(AuditMetrics::register(own));
        let draining = register(own, "draining", "1 while the server drains, else 0");
        let traces = Arc::new(TraceMetrics::register(own));
        Self { registry, locks, store, partitions, calls, connections, access, quotas, audit, draining, traces }
    }

    /// All metrics, in the text format of OpenMetrics.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut encoded = String::new();
        text::encode(&mut encoded, &self.registry)?;
        Ok(encoded)
    }
}

/// Registers a metric without labels and unit.
fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// The buckets of a histogram. Each bucket is a time series, so there are few.
#[derive(Clone, Copy, Debug)]
enum Buckets {
    /// 0.25 ms to 8 s, for what a machine does.
    Short,
    /// 1 ms to 4.7 h, for what people and their programs do.
    Long,
    /// 1 to 32.
    Count,
}

impl Buckets {
    fn histogram(self) -> Histogram {
        match self {
            Self::Short => Histogram::new(exponential_buckets(0.000_25, 2.0, 16)),
            Self::Long => Histogram::new(exponential_buckets(0.001, 4.0, 13)),
            Self::Count => Histogram::new(exponential_buckets(1.0, 2.0, 6)),
        }
    }

    /// Registers a histogram: of seconds, unless it counts.
    fn register(self, registry: &mut Registry, name: &str, help: &str) -> Histogram {
        let histogram = self.histogram();
        match self {
            Self::Count => registry.register(name, help, histogram.clone()),
            Self::Short | Self::Long => registry.register_with_unit(name, help, Unit::Seconds, histogram.clone()),
        }
        histogram
    }
}
