//! Sets the wall clock of a process that a test started.

#![allow(dead_code, reason = "no test uses all of it")]

use std::{
    path::PathBuf,
    process::{Command, Output},
};

const SOURCE: &str = include_str!("clock_shim.c");

/// A wall clock that a test sets. Must outlive the process that uses it.
pub(crate) struct Clock(tempfile::TempDir);

impl Clock {
    /// A clock with the right time.
    pub(crate) fn new() -> Self {
        let clock = Self(tempfile::tempdir().unwrap());
        std::fs::write(clock.file("shim.c"), SOURCE).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).args([clock.file("shim.so"), clock.file("shim.c")]);
        let Output { status, stderr, .. } = compiler.output().expect("cc, as cargo links with it");
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        clock.set(0);
        clock
    }

    /// Sets the clock this many seconds ahead of the right time; a negative number means behind.
    pub(crate) fn set(&self, ahead: i64) {
        std::fs::write(self.file("new"), ahead.to_string()).unwrap();
        std::fs::rename(self.file("new"), self.file("offset")).unwrap();
    }

    /// The variables of a process that uses this clock.
    pub(crate) fn env(&self) -> Vec<(&'static str, PathBuf)> {
        vec![("LD_PRELOAD", self.file("shim.so")), ("CLOCK_OFFSET_FILE", self.file("offset"))]
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}
