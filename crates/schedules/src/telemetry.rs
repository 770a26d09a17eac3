//! The metrics of the server. Moving them is no scheduling point.

#[path = "../../../src/telemetry/metrics/mod.rs"]
pub mod metrics;
