//! Traces of the commands of a test: marks in a file, and processes.

use crate::support::{await_some, await_that};
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::fs;

/// Whether the process has exited.
pub(crate) fn is_gone(pid: &str) -> bool {
    kill(parsed(pid), None) == Err(Errno::ESRCH)
}

/// Kills a process that the command of a test started.
pub(crate) fn end(pid: &str) {
    kill(parsed(pid), Signal::SIGKILL).unwrap();
}

fn parsed(pid: &str) -> Pid {
    Pid::from_raw(pid.trim().parse().unwrap())
}

/// A file to which the commands of a test append marks, in the order of execution.
pub(crate) struct Marks {
    folder: tempfile::TempDir,
}

impl Marks {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// The folder is deleted with the marks.
    pub(crate) fn folder(&self) -> String {
        self.folder.path().display().to_string()
    }

    pub(crate) fn path(&self) -> String {
        self.folder.path().join("marks").display().to_string()
    }

    pub(crate) fn read(&self) -> Vec<String> {
        fs::read_to_string(self.path()).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    pub(crate) fn await_mark(&self, mark: &str) {
        await_that(mark, || self.read().iter().any(|line| line == mark));
    }

    /// Waits for a line `name=value`. Returns the value.
    pub(crate) fn await_value(&self, name: &str) -> String {
        await_some(name, || {
            self.read().iter().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
        })
    }
}
