//! The wall clock of a process that a test started, set while it runs.

#![allow(dead_code, reason = "each test crate uses its part")]

use std::{
    path::PathBuf,
    process::{Command, Output},
};

const SOURCE: &str = include_str!("clock_shim.c");

/// A clock that a test sets. The process whose clock it is must not outlive it.
pub(crate) struct Clock(tempfile::TempDir);

impl Clock {
    /// One that is right.
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

    /// Sets it this many seconds ahead of the right time, or behind it.
    pub(crate) fn set(&self, ahead: i64) {
        std::fs::write(self.file("new"), ahead.to_string()).unwrap();
        std::fs::rename(self.file("new"), self.file("offset")).unwrap();
    }

    /// What a process needs to go by it.
    pub(crate) fn env(&self) -> Vec<(&'static str, PathBuf)> {
        vec![("LD_PRELOAD", self.file("shim.so")), ("CLOCK_OFFSET_FILE", self.file("offset"))]
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}
