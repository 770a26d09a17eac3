//! The one clock of this crate: monotonic, and on Linux it counts the time a machine is suspended.
//!
//! A lease keeps ageing on the server while the machine of its holder is suspended. `CLOCK_MONOTONIC`, which `Instant`
//! and tokio's timers read, stops meanwhile; `CLOCK_BOOTTIME` does not. So timers only wake tasks up, and validity is
//! always decided by a [`Moment`].

use std::time::Duration;

/// A point in time on this machine's monotonic clock (`CLOCK_BOOTTIME` on Linux). Meaningless on another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The current time. For a lease, take it *before* sending the request.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let whole = u64::try_from(now.tv_sec).unwrap_or(0);
        let part = u32::try_from(now.tv_nsec).unwrap_or(0);
        Self(Duration::new(whole, part))
    }

    /// The current time. For a lease, take it *before* sending the request.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    #[allow(clippy::disallowed_methods)] // this file is the clock
    pub fn now() -> Self {
        use std::{sync::OnceLock, time::Instant};
        static START: OnceLock<Instant> = OnceLock::new();
        // Starts at one hour, so that subtracting from an early moment does not saturate.
        Self(START.get_or_init(Instant::now).elapsed() + Duration::from_secs(3600))
    }

    /// Adds a duration, saturating at the latest moment.
    #[must_use]
    pub fn plus(self, more: Duration) -> Self {
        Self(self.0.saturating_add(more))
    }

    /// Subtracts a duration, saturating at the earliest moment.
    #[must_use]
    pub fn minus(self, less: Duration) -> Self {
        Self(self.0.saturating_sub(less))
    }

    /// Time elapsed since `earlier`; zero if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Time left until this moment; zero if it has passed.
    pub fn from_now(self) -> Duration {
        self.since(Self::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_forward_and_saturates() {
        let first = Moment::now();
        let second = Moment::now();
        assert!(second >= first);
        assert_eq!(first.since(first.plus(Duration::from_secs(1))), Duration::ZERO);
        assert_eq!(first.plus(Duration::MAX).plus(Duration::MAX), Moment(Duration::MAX));
        assert_eq!(first.minus(Duration::MAX), Moment(Duration::ZERO));
        assert_eq!(first.from_now(), Duration::ZERO);
    }
}
