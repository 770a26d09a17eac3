//! What a server tells about itself: its log, its metrics and its traces.

mod export;
mod log;
pub mod metrics;
pub mod seldom;
pub mod traces;

pub use log::{FlushOnDrop, TelemetryError, init, stderr};
