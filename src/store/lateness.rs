//! When a lane of acquires is too slow, so that the oldest ones in it are refused: by their age, not by their number,
//! because the age is what callers notice, however fast the nodes are. This is the rule of CoDel.
//!
//! The oldest ones are refused and not those that come: under a load that lasts, all that is served is then younger
//! than [`AGE_MAX`] and [`LATE_MAX`] together, and whoever is refused learns it as soon. Were new ones refused instead,
//! those before them would wait until their callers give up.

use crate::domain::limits::COMMAND_WINDOW;
use std::time::Duration;

/// The age that what waits in a lane should not exceed. Leases with the shortest TTL, 1 s, are renewed after a third of
/// it, so that a renewal which waits for as long still arrives.
pub(crate) const AGE_MAX: Duration = Duration::from_millis(100);
/// All that is older than [`AGE_MAX`] is refused when the oldest one has been for so long. A burst that is worked off
/// in this time costs nobody a refusal.
pub(crate) const LATE_MAX: Duration = Duration::from_millis(100);

const _: () = assert!(
    AGE_MAX.as_millis() + LATE_MAX.as_millis() < COMMAND_WINDOW.as_millis(),
    "what waits is refused before it comes too late"
);

/// How many acquires were refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shed {
    /// Because they waited for too long.
    pub(crate) late: u64,
    /// Because the lane was full.
    pub(crate) full: u64,
}

/// Since when a lane is late. `T` is a moment on some clock.
#[derive(Debug)]
pub(crate) struct Lateness<T>(Option<T>);

impl<T> Default for Lateness<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Copy> Lateness<T> {
    /// Takes the age of the oldest one that waits now, if any does. `since` tells how long ago a moment was. Returns
    /// whether all that is older than [`AGE_MAX`] is to be refused.
    pub(crate) fn look(&mut self, oldest: Option<Duration>, now: T, since: impl FnOnce(T) -> Duration) -> bool {
        if oldest.is_none_or(|age| age <= AGE_MAX) {
            self.0 = None;
            return false;
        }
        let is_over = since(*self.0.get_or_insert(now)) >= LATE_MAX;
        if is_over {
            self.0 = None;
        }
        is_over
    }
}
