//! When to stop the command, so that none of its processes runs once another holder can get the lock. A pure function
//! of the lease's validity.
//!
//! `valid_for` ends before the lease expires at the server, by drift and a margin. The command gets SIGTERM while it
//! has time to exit in an orderly way, and SIGKILL while there is time for the kill to take effect.

use std::time::Duration;

/// The most time between SIGTERM and the end of the lease, however long the TTL.
const GRACE_MAX: Duration = Duration::from_secs(10);
/// The least time that a kill gets to take effect: signal delivery, scheduling, gigabytes of memory to unmap.
const KILL_MARGIN_MIN: Duration = Duration::from_millis(50);
/// The longest time between checks. Timers do not advance while the machine is suspended.
const CHECK_INTERVAL_MAX: Duration = Duration::from_millis(500);

/// How long before the end of a lease its command gets SIGTERM, and SIGKILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guard {
    /// Send SIGTERM when no more than this is left.
    pub(super) grace: Duration,
    /// Send SIGKILL when no more than this is left.
    pub(super) kill_margin: Duration,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing; check again after this time.
    Wait(Duration),
    /// Send SIGTERM, unless it was sent already; check again after this time.
    Terminate(Duration),
    /// Kill the group.
    Kill,
}

impl Guard {
    /// The guard of a lease with this TTL. Neither time exceeds a quarter of the TTL, so that a command under a very
    /// short lease has time to work.
    pub(super) fn of(ttl: Duration) -> Self {
        Self { grace: (ttl / 4).min(GRACE_MAX), kill_margin: (ttl / 20).max(KILL_MARGIN_MIN).min(ttl / 4) }
    }

    /// What to do while the lease is valid for this long.
    pub(super) fn action(&self, valid_for: Duration) -> Action {
        if valid_for <= self.kill_margin {
            Action::Kill
        } else if valid_for <= self.grace {
            Action::Terminate((valid_for - self.kill_margin).min(CHECK_INTERVAL_MAX))
        } else {
            Action::Wait((valid_for - self.grace).min(CHECK_INTERVAL_MAX))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn sigterm_comes_before_sigkill() {
        let guard = Guard::of(ms(30_000));
        assert_eq!(guard, Guard { grace: ms(7_500), kill_margin: ms(1_500) });
        assert_eq!(guard.action(ms(28_000)), Action::Wait(ms(500)));
        assert_eq!(guard.action(ms(7_600)), Action::Wait(ms(100)));
        assert_eq!(guard.action(ms(7_500)), Action::Terminate(ms(500)));
        assert_eq!(guard.action(ms(1_501)), Action::Terminate(ms(1)));
        assert_eq!(guard.action(ms(1_500)), Action::Kill);
        assert_eq!(guard.action(Duration::ZERO), Action::Kill);
    }

    #[test]
    fn the_grace_of_long_leases_is_bounded() {
        assert_eq!(Guard::of(ms(3_600_000)).grace, GRACE_MAX);
    }

    #[test]
    fn a_lease_that_is_renewed_in_time_never_stops_its_command() {
        // A renewal comes when a third of the TTL has passed, at the next beat (a ninth). With drift and margin
        // subtracted, about half of the TTL is left then.
        for millis in [500, 1_000, 30_000, 86_400_000] {
            let ttl = ms(millis);
            let left = ttl - ttl / 3 - ttl / 9 - ttl / 100 - (ttl / 20).max(ms(20));
            assert!(matches!(Guard::of(ttl).action(left), Action::Wait(_)), "{ttl:?}");
        }
    }
}
