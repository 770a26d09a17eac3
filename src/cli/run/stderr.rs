//! Messages of `run` and `hold` while they hold the lock.
//!
//! A blocked stderr (a terminal stopped with Ctrl-S, a pipe that nobody reads) must not delay renewals, nor the kill of
//! a command that lost its lease. So writes never block, and messages that cannot be written in time are lost.

use crate::{
    cli::look::Look,
    telemetry::{self, FlushOnDrop},
};
use anstyle::Style;
use std::io::Write;
use tracing_appender::non_blocking::NonBlocking;

/// A non-blocking stderr. Dropped, it waits briefly until its messages are written.
#[derive(Debug)]
pub(in crate::cli) struct Stderr {
    writer: NonBlocking,
    _flush: FlushOnDrop,
}

impl Stderr {
    pub(in crate::cli) fn new() -> Self {
        let (writer, flush) = telemetry::stderr();
        Self { writer, _flush: flush }
    }

    pub(in crate::cli) fn write_message(&self, style: Style, message: &str) {
        // A single write per message, since each write may be dropped.
        let _ = self.writer.clone().write_all(Look::of_stderr().message(style, message).as_bytes());
    }
}
