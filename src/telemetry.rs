//! The log: structured lines on standard error, so that standard output stays free for what a command answers.

use crate::config::{LogConfig, LogFormat};
use std::io::{self, IsTerminal};
use tracing_subscriber::{EnvFilter, util::SubscriberInitExt};

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

/// Sends what is logged in this process to standard error from now on.
pub fn init(log: &LogConfig) -> Result<(), TelemetryError> {
    let filter = EnvFilter::try_new(&log.filter)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match log.format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).finish().try_init()?,
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init()?,
    }
    Ok(())
}
