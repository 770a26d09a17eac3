//! Clocks. Nothing else in the server reads one, so that tests can hand in their own.

use crate::domain::time::{StoreTime, micros};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime},
};

/// What tells a store its time.
pub trait Clock: Send + Sync + 'static {
    /// The time now. Never goes back.
    fn now(&self) -> StoreTime;
}

/// Starts at the wall clock and goes on by the monotonic one: later steps of the wall clock do not reach it.
#[derive(Debug)]
pub struct ProcessClock {
    started: StoreTime,
    since: Instant,
}

impl ProcessClock {
    /// Reads the wall clock, once.
    #[allow(clippy::disallowed_methods)] // this is the clock
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { started: StoreTime::from_micros(micros(wall)), since: Instant::now() }
    }
}

impl Clock for ProcessClock {
    fn now(&self) -> StoreTime {
        self.started.after(self.since.elapsed())
    }
}

/// A clock that stands still until it is told to go on: time as a value, for tests.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows this time.
    pub const fn at(now: StoreTime) -> Self {
        Self(AtomicU64::new(now.as_micros()))
    }

    /// Lets time pass.
    pub fn advance(&self, span: Duration) {
        self.0.fetch_add(micros(span), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> StoreTime {
        StoreTime::from_micros(self.0.load(Ordering::SeqCst))
    }
}
