//! The wall clock of the Redis processes, which can be set while they run.

use crate::shim;
use anyhow::Result;
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

const SOURCE: &str = include_str!("../../../tests/support/clock_shim.c");

pub(crate) struct WallClock {
    folder: PathBuf,
    shim: PathBuf,
    ahead: AtomicI64,
}

impl WallClock {
    /// A clock without offset.
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        let folder = folder.join("clock");
        std::fs::create_dir(&folder)?;
        let shim = shim::compile(&folder, SOURCE)?;
        let clock = Self { folder, shim, ahead: AtomicI64::new(0) };
        clock.step(0)?;
        Ok(clock)
    }

    /// Moves it by a number of seconds, from its current time.
    pub(crate) fn step(&self, seconds: i64) -> Result<()> {
        let ahead = self.ahead.fetch_add(seconds, Ordering::Relaxed) + seconds;
        std::fs::write(self.folder.join("new"), ahead.to_string())?;
        Ok(std::fs::rename(self.folder.join("new"), self.folder.join("offset"))?)
    }

    /// How far it is from the clock of the servers.
    pub(crate) fn apart(&self) -> Duration {
        Duration::from_secs(self.ahead.load(Ordering::Relaxed).unsigned_abs())
    }

    /// The environment of a process that uses it.
    pub(crate) fn env(&self) -> Vec<(&'static str, PathBuf)> {
        vec![("LD_PRELOAD", self.shim.clone()), ("CLOCK_OFFSET_FILE", self.folder.join("offset"))]
    }
}
