//! What a server tells about itself: its log, its audit log, its metrics and its traces.

pub mod audit;
mod export;
mod log;
pub mod metrics;
pub mod seldom;
pub mod traces;

pub use log::{FlushOnDrop, TelemetryError, init, stderr};
