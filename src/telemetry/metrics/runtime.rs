//! Figures of the runtime, read at each scrape.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::gauge::ConstGauge,
    registry::Registry,
};
use std::fmt;
use tokio::runtime::{Handle, RuntimeMetrics};

#[derive(Debug)]
struct Runtime(RuntimeMetrics);

/// Adds the figures of the present runtime, if there is one.
pub(super) fn register(registry: &mut Registry) {
    if let Ok(runtime) = Handle::try_current() {
        registry.register_collector(Box::new(Runtime(runtime.metrics())));
    }
}

impl Collector for Runtime {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let figures = [
            ("runtime_workers", "Worker threads.", self.0.num_workers()),
            ("runtime_alive_tasks", "Tasks that have not ended.", self.0.num_alive_tasks()),
            ("runtime_queue_depth", "Tasks in the global queue of the runtime.", self.0.global_queue_depth()),
        ];
        for (name, help, figure) in figures {
            let figure = ConstGauge::new(figure as u64);
            figure.encode(encoder.encode_descriptor(name, help, None, figure.metric_type())?)?;
        }
        Ok(())
    }
}
