//! What `run` says while a command runs. A terminal that stands still (Ctrl-S), or a pipe that nobody empties, holds up
//! neither the renewals of the lease nor the end of a command that has lost it: what cannot be said in time is not
//! said.

use crate::telemetry::{self, UntilWritten};
use std::io::Write;
use tracing_appender::non_blocking::NonBlocking;

/// Dropped, it waits a moment for what is still to be written.
#[derive(Debug)]
pub(super) struct Voice {
    standard_error: NonBlocking,
    _until_written: UntilWritten,
}

impl Voice {
    pub(super) fn new() -> Self {
        let (standard_error, _until_written) = telemetry::standard_error();
        Self { standard_error, _until_written }
    }

    pub(super) fn say(&self, message: &str) {
        // One write is one line.
        let _ = self.standard_error.clone().write_all(format!("fencepost: {message}\n").as_bytes());
    }
}
