//! Metrics of the partitions of a store on Redis.

use super::register;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Who leads the partitions, as this server sees it.
#[derive(Debug)]
pub struct PartitionMetrics {
    /// Partitions that this server leads.
    pub led: Gauge,
    /// Partitions without a leader that this server knows.
    pub without_leader: Gauge,
    /// The other servers that live.
    pub peers: Gauge,
    /// How often this server began to lead a partition.
    pub leads_begun: Counter,
    /// How often it lost the lead of one, other than by leaving.
    pub leads_lost: Counter,
    /// Acquires that were refused because too many wait.
    pub shed: ShedMetrics,
}

/// Acquires that were refused, by the lane in which they were to wait, and by the reason.
#[derive(Debug)]
pub struct ShedMetrics {
    /// At the leader, because acquires had waited for too long.
    pub age: Counter,
    /// At the leader, because too many waited.
    pub length: Counter,
    /// On the way to the leader, because acquires had waited for too long.
    pub forward_age: Counter,
    /// On the way to the leader, because too many waited.
    pub forward_length: Counter,
}

impl ShedMetrics {
    fn register(registry: &mut Registry) -> Self {
        let family = Family::<[(&'static str, &'static str); 2], Counter>::default();
        registry.register("shed", "Acquires that were refused because too many waited for the store", family.clone());
        let of = |lane, reason| family.get_or_create_owned(&[("lane", lane), ("reason", reason)]);
        Self {
            age: of("acquire", "age"),
            length: of("acquire", "length"),
            forward_age: of("forward", "age"),
            forward_length: of("forward", "length"),
        }
    }
}

impl PartitionMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let it = registry;
        Self {
            led: register(it, "partitions_led", "Partitions that this server leads"),
            without_leader: register(
                it,
                "partitions_without_leader",
                "Partitions without a leader known to this server",
            ),
            peers: register(it, "peers", "Other servers of the store that live"),
            leads_begun: register(it, "leads_begun", "Partitions that this server began to lead"),
            leads_lost: register(it, "leads_lost", "Partitions that another server took over from this one"),
            shed: ShedMetrics::register(it),
        }
    }
}

impl Default for PartitionMetrics {
    /// Metrics that nobody scrapes.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}
