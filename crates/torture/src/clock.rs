//! The clock of all processes of a run.

use fencepost_torture::history::Nanos;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// `CLOCK_MONOTONIC` of the host.
pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
    nanos(time)
}

pub(crate) fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}

/// The time until `moment`; zero if it has passed.
pub(crate) fn until(moment: Nanos) -> Duration {
    Duration::from_nanos(moment.saturating_sub(now()))
}
