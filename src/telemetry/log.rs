//! The log: structured lines on stderr. stdout is for the results of commands.
//!
//! A separate thread writes the log, because a blocked terminal or a pipe that nobody reads must not delay renewals.
//! Lines that cannot be written in time are lost.

use crate::config::{LogConfig, LogFormat};
use std::{
    io::{self, IsTerminal},
    sync::mpsc,
    thread,
    time::Duration,
};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, filter::LevelFilter, util::SubscriberInitExt};

/// The most lines that wait to be written. Further lines are lost.
const LINES_BACKLOG_MAX: usize = 10_000;
/// How long the end of the process waits for pending lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// What is not logged unless the filter names it, or goes down to debug: h2 has a line for each connection that breaks
/// one of its bounds, and any client could flood the log with these. The server counts such connections, and limits its
/// own lines.
const QUIET: &str = "h2=off";

/// The log cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is invalid. `config` rejects such a filter earlier.
    #[error("invalid log filter: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The process has a log already.
    #[error("the log was already set up: {0}")]
    AlreadySet(#[from] tracing_subscriber::util::TryInitError),
}

/// Dropped, it waits until pending lines are written, a second at most.
#[derive(Debug)]
pub struct FlushOnDrop(Option<WorkerGuard>);

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        let (guard, (done, flushed)) = (self.0.take(), mpsc::channel::<()>());
        // The guard's own wait is unbounded if stdout is blocked as well, because it then prints a message there.
        thread::spawn(move || {
            drop(guard);
            drop(done);
        });
        let _ = flushed.recv_timeout(FLUSH_TIMEOUT);
    }
}

/// A non-blocking writer to stderr.
pub fn stderr() -> (NonBlocking, FlushOnDrop) {
    let lines = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES_BACKLOG_MAX);
    let (writer, guard) = lines.finish(io::stderr());
    (writer, FlushOnDrop(Some(guard)))
}

/// Sets up the log of this process. Drop the returned guard before the process ends.
pub fn init(log: &LogConfig) -> Result<FlushOnDrop, TelemetryError> {
    let mut filter = EnvFilter::try_new(&log.filter)?;
    if filter.max_level_hint().is_some_and(|level| level <= LevelFilter::INFO) {
        filter = EnvFilter::try_new(format!("{QUIET},{}", log.filter))?;
    }
    let (writer, guard) = stderr();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match log.format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).finish().try_init()?,
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init()?,
    }
    Ok(guard)
}
