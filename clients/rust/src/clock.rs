//! The one clock of this crate: monotonic, and on Linux one that counts the time a machine is suspended.
//!
//! A lease goes on ageing on the server while the machine of its holder sleeps. `CLOCK_MONOTONIC`, which `Instant` and
//! tokio's timers read, stands still meanwhile; `CLOCK_BOOTTIME` does not. So timers only wake this crate up, and what
//! is still valid is always decided by a [`Moment`].

use std::time::Duration;

/// A point in time on this machine's monotonic clock (`CLOCK_BOOTTIME` on Linux). Means nothing to another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The present. Take it *before* you send what a lease is to be counted from.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let whole = u64::try_from(now.tv_sec).unwrap_or(0);
        let part = u32::try_from(now.tv_nsec).unwrap_or(0);
        Self(Duration::new(whole, part))
    }

    /// The present. Take it *before* you send what a lease is to be counted from.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    #[allow(clippy::disallowed_methods)] // this file is the clock
    pub fn now() -> Self {
        use std::{sync::OnceLock, time::Instant};
        static START: OnceLock<Instant> = OnceLock::new();
        // An hour ahead, so that a moment before the first call has room below it.
        Self(START.get_or_init(Instant::now).elapsed() + Duration::from_secs(3600))
    }

    /// This moment and so much more; the end of time if that is too far.
    #[must_use]
    pub fn plus(self, more: Duration) -> Self {
        Self(self.0.saturating_add(more))
    }

    /// This moment less so much; the beginning of time if that is too far.
    #[must_use]
    pub fn minus(self, less: Duration) -> Self {
        Self(self.0.saturating_sub(less))
    }

    /// How long after `earlier` this is; zero if it is before.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// How long it is until this moment; zero once it has come.
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
