//! What a server tells about itself: its log, its metrics and its traces.

mod log;
pub mod metrics;
pub mod traces;

pub use log::{FlushOnDrop, TelemetryError, init, stderr};
