//! The log: structured lines on standard error, so that standard output stays free for what a command answers.
//!
//! A thread of its own writes them. A terminal that stands still, or a pipe that nobody empties, must not hold up
//! renewals: lines are lost instead.

use crate::config::{LogConfig, LogFormat};
use std::{
    io::{self, IsTerminal},
    sync::mpsc,
    thread,
    time::Duration,
};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, util::SubscriberInitExt};

/// Lines that may wait to be written; at it they are lost.
const LINES_BACKLOG_MAX: usize = 10_000;
/// How long the end of the process waits for what is still to be written.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

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

/// Dropped, it waits for what is still to be written to standard error, a second at most.
#[derive(Debug)]
pub struct UntilWritten(Option<WorkerGuard>);

impl Drop for UntilWritten {
    fn drop(&mut self) {
        let (guard, (done, written)) = (self.0.take(), mpsc::channel::<()>());
        // The guard's own wait has no end where standard output stands still as well: it tells that something did.
        thread::spawn(move || {
            drop(guard);
            drop(done);
        });
        let _ = written.recv_timeout(WRITTEN_WITHIN);
    }
}

/// Standard error, written to by a thread of its own: no write waits.
pub fn standard_error() -> (NonBlocking, UntilWritten) {
    let lines = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES_BACKLOG_MAX);
    let (standard_error, guard) = lines.finish(io::stderr());
    (standard_error, UntilWritten(Some(guard)))
}

/// Sends what is logged in this process to standard error from now on. What is dropped with the answer is written
/// before, as far as somebody reads it.
pub fn init(log: &LogConfig) -> Result<UntilWritten, TelemetryError> {
    let filter = EnvFilter::try_new(&log.filter)?;
    let (standard_error, guard) = standard_error();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(standard_error);
    match log.format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).finish().try_init()?,
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init()?,
    }
    Ok(guard)
}
