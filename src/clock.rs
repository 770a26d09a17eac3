//! Clocks. No other module of the server reads the system's clocks, so that tests can pass in their own.

use crate::domain::time::{StoreTime, micros};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime},
};

/// The clock of a store.
pub trait Clock: Send + Sync + 'static {
    /// The current time. Never decreases.
    fn now(&self) -> StoreTime;
}

/// The wall clock, for people who read when something happened.
#[allow(clippy::disallowed_methods)] // this is the clock
pub fn wall_time() -> SystemTime {
    SystemTime::now()
}

/// The wall clock, in Unix seconds: for what others date by it, such as tokens and certificates. It decides nothing
/// about leases.
pub fn unix_time() -> i64 {
    let since = wall_time().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Starts at the wall clock's time and advances with the monotonic clock, so later steps of the wall clock have no
/// effect.
#[derive(Debug)]
pub struct ProcessClock {
    started: StoreTime,
    since: Instant,
}

impl ProcessClock {
    /// A clock that starts now. Reads the wall clock once.
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

/// A clock for tests that advances only when told to.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that starts at this time.
    pub const fn at(now: StoreTime) -> Self {
        Self(AtomicU64::new(now.as_micros()))
    }

    /// Advances the clock.
    pub fn advance(&self, span: Duration) {
        self.0.fetch_add(micros(span), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> StoreTime {
        StoreTime::from_micros(self.0.load(Ordering::SeqCst))
    }
}
