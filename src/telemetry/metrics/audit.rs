//! The audit log.

use super::register;
use prometheus_client::{metrics::counter::Counter, registry::Registry};

/// The audit log.
#[derive(Debug)]
pub struct AuditMetrics {
    /// Lines that were not written.
    pub lost: Counter,
}

impl AuditMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let help = "Lines of the audit log that were not written: the file was full, or too many waited";
        Self { lost: register(registry, "audit_lines_lost", help) }
    }
}

impl Default for AuditMetrics {
    /// Metrics that nobody scrapes.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}
