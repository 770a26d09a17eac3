//! Figures of the process, with the names on which Prometheus' client libraries agree. Read at each scrape; only Linux
//! has them. A figure that cannot be read is left out.

use prometheus_client::registry::Registry;

/// Adds the figures to the registry.
pub(super) fn register(registry: &mut Registry) {
    #[cfg(target_os = "linux")]
    registry.register_collector(Box::new(linux::Process));
    #[cfg(not(target_os = "linux"))]
    let _ = registry;
}

#[cfg(target_os = "linux")]
mod linux {
    use procfs::process::{LimitValue, Process as Proc};
    use prometheus_client::{
        collector::Collector,
        encoding::{DescriptorEncoder, EncodeMetric},
        metrics::{counter::ConstCounter, gauge::ConstGauge},
        registry::Unit,
    };
    use std::fmt;

    #[derive(Debug)]
    pub(super) struct Process;

    impl Collector for Process {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let mut add = |name, help, unit: Option<Unit>, figure: &dyn EncodeMetric| {
                figure.encode(encoder.encode_descriptor(name, help, unit.as_ref(), figure.metric_type())?)
            };
            let Ok(process) = Proc::myself() else { return Ok(()) };
            if let Ok(stat) = process.stat() {
                let seconds = |ticks: u64| ticks as f64 / procfs::ticks_per_second() as f64;
                let used = ConstCounter::new(seconds(stat.utime + stat.stime));
                add("process_cpu", "User and system CPU time of the process.", Some(Unit::Seconds), &used)?;
                let resident = ConstGauge::new(stat.rss.saturating_mul(procfs::page_size()));
                add("process_resident_memory", "Resident memory of the process.", Some(Unit::Bytes), &resident)?;
                if let Ok(boot) = procfs::boot_time_secs() {
                    let start = ConstGauge::new(boot as f64 + seconds(stat.starttime));
                    add("process_start_time", "Start of the process, in Unix time.", Some(Unit::Seconds), &start)?;
                }
            }
            if let Ok(open) = process.fd_count() {
                add("process_open_fds", "Open file descriptors.", None, &ConstGauge::new(open as u64))?;
            }
            if let Ok(LimitValue::Value(max)) = process.limits().map(|limits| limits.max_open_files.soft_limit) {
                add("process_max_fds", "Maximum number of open file descriptors.", None, &ConstGauge::new(max))?;
            }
            Ok(())
        }
    }
}
