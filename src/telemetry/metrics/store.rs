//! Metrics of requests to a store outside of this process.

use super::{
    Buckets,
    label::{Counters, label},
    register,
};
use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

label! {
    /// What a round trip was for.
    RoundTrip = "kind" {
        /// Commands.
        Commands = "commands",
        /// The handshake of a connection, or its check.
        Check = "check",
    }
}

label! {
    /// Why a command has no answer.
    StoreFailure = "kind" {
        /// It was not sent, or was refused: nothing was done.
        Unavailable = "unavailable",
        /// Too many commands are queued: nothing was done.
        Overloaded = "overloaded",
        /// It reached the leader when its caller had given up: nothing was done.
        TooLate = "too_late",
        /// It was sent and not answered in time: the outcome is unknown.
        Unknown = "unknown",
        /// The answer makes no sense.
        Corrupt = "corrupt",
    }
}

/// What the server asks of a store that is another process.
#[derive(Debug)]
pub struct StoreMetrics {
    /// Round trips.
    pub round_trips: Counters<RoundTrip>,
    /// The time of round trips with commands.
    pub round_trip_seconds: Histogram,
    /// Commands without an answer.
    pub errors: Counters<StoreFailure>,
    /// Commands of a round trip.
    pub batch_size: Histogram,
    /// Whether the store can be used.
    pub up: Gauge,
    /// Connections that are up.
    pub connections: Gauge,
    /// Connections that replaced a lost one.
    pub reconnects: Counter,
}

impl StoreMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let it = registry;
        Self {
            round_trips: Counters::register(it, "store_round_trips", "Round trips to the store"),
            round_trip_seconds: Buckets::Short.register(
                it,
                "store_round_trip",
                "Time from the sending of a batch of commands to the store's answer, or to the failure",
            ),
            errors: Counters::register(it, "store_errors", "Commands that the store did not answer"),
            batch_size: Buckets::Count.register(it, "store_batch_size", "Commands of a round trip"),
            up: register(it, "store_up", "1 while the store can be used, else 0"),
            connections: register(it, "store_connections", "Connections to the store that carry commands"),
            reconnects: register(it, "store_reconnects", "Connections to the store that replaced a lost one"),
        }
    }
}

impl Default for StoreMetrics {
    /// Metrics that nobody scrapes.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}
