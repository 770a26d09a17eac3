//! The log: structured lines on standard error, so that standard output stays free for what a command answers.
//!
//! A thread of its own writes them. A terminal that stands still, or a pipe that nobody empties, must not hold up renewals: lines are lost instead.

use crate::config::{LogConfig, LogFormat};
use std::io::{self, IsTerminal};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, util::SubscriberInitExt};

/// Lines that may wait to be written; at it they are lost.
const LINES_BACKLOG_MAX: usize = 10_000;

/// The log cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter does not parse; `config` lets none of these through.
    #[error("the log filter does not parse: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// Some other part of the process did it first.
    #[error("the log was already set up: {0}")]
    Taken(#[from] tracing_subscriber::util::TryInitError),
}

/// Standard error, written to by a thread of its own: no write waits. Dropped, the second waits a moment for what is still to be written.
pub fn standard_error() -> (NonBlocking, WorkerGuard) {
    NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES_BACKLOG_MAX).finish(io::stderr())
}

/// Sends what is logged in this process to standard error from now on. What is dropped with the answer is written before, as far as somebody reads it.
pub fn init(log: &LogConfig) -> Result<WorkerGuard, TelemetryError> {
    let filter = EnvFilter::try_new(&log.filter)?;
    let (standard_error, guard) = standard_error();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(standard_error);
    match log.format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).finish().try_init()?,
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init()?,
    }
    Ok(guard)
}
