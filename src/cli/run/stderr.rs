//! Messages of `run` while the command runs.
//!
//! A blocked stderr (a terminal stopped with Ctrl-S, a pipe that nobody reads) must not delay renewals, nor the kill of
//! a command that lost its lease. So writes never block, and messages that cannot be written in time are lost.

use crate::telemetry::{self, FlushOnDrop};
use std::io::Write;
use tracing_appender::non_blocking::NonBlocking;

/// A non-blocking stderr. Dropped, it waits briefly until its messages are written.
#[derive(Debug)]
pub(super) struct Stderr {
    writer: NonBlocking,
    _flush: FlushOnDrop,
}

impl Stderr {
    pub(super) fn new() -> Self {
        let (writer, flush) = telemetry::stderr();
        Self { writer, _flush: flush }
    }

    pub(super) fn write_message(&self, message: &str) {
        // A single write per line, since each write may be dropped.
        let _ = self.writer.clone().write_all(format!("fencepost: {message}\n").as_bytes());
    }
}
