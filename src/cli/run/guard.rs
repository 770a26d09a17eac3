//! When the command has to stop so that nothing of it runs once the lock can pass on: a pure function of what is left.
//!
//! `valid_for` is the lease's own reckoning, which already keeps drift and a margin back from the server's end. The
//! command is asked to stop while there is time to do so in order, and killed while there is time for that to happen.

use std::time::Duration;

/// However long the TTL, no command gets more time to stop in order.
const GRACE_MAX: Duration = Duration::from_secs(10);
/// Killing takes a moment: signals, a scheduler, a process that dies with gigabytes to unmap.
const KILL_AHEAD_MIN: Duration = Duration::from_millis(50);
/// Timers do not count the time that a machine sleeps: look at least this often.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long before the end of a lease its command is asked to stop, and killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guard {
    /// Ask it to stop when no more than this is left.
    pub(super) grace: Duration,
    /// Kill it when no more than this is left.
    pub(super) kill_ahead: Duration,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Nothing; look again after so long.
    Fine(Duration),
    /// Ask the command to stop, if it was not asked yet; look again after so long.
    Terminate(Duration),
    /// Kill all of it.
    Kill,
}

impl Guard {
    /// For a lease of this TTL. So that a very short one leaves any time to work in, neither takes more than a quarter
    /// of it.
    pub(super) fn of(ttl: Duration) -> Self {
        Self { grace: (ttl / 4).min(GRACE_MAX), kill_ahead: (ttl / 20).max(KILL_AHEAD_MIN).min(ttl / 4) }
    }

    /// What to do with so much left of the lease.
    pub(super) fn advise(&self, valid_for: Duration) -> Advice {
        if valid_for <= self.kill_ahead {
            Advice::Kill
        } else if valid_for <= self.grace {
            Advice::Terminate((valid_for - self.kill_ahead).min(LOOK_AGAIN))
        } else {
            Advice::Fine((valid_for - self.grace).min(LOOK_AGAIN))
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
    fn a_command_is_asked_before_it_is_killed() {
        let guard = Guard::of(ms(30_000));
        assert_eq!(guard, Guard { grace: ms(7_500), kill_ahead: ms(1_500) });
        assert_eq!(guard.advise(ms(28_000)), Advice::Fine(ms(500)));
        assert_eq!(guard.advise(ms(7_600)), Advice::Fine(ms(100)));
        assert_eq!(guard.advise(ms(7_500)), Advice::Terminate(ms(500)));
        assert_eq!(guard.advise(ms(1_501)), Advice::Terminate(ms(1)));
        assert_eq!(guard.advise(ms(1_500)), Advice::Kill);
        assert_eq!(guard.advise(Duration::ZERO), Advice::Kill);
    }

    #[test]
    fn long_leases_do_not_waste_their_end() {
        assert_eq!(Guard::of(ms(3_600_000)).grace, GRACE_MAX);
    }

    #[test]
    fn a_lease_that_is_renewed_in_time_is_never_in_danger() {
        // Renewed when a third is used up, at the next beat (a ninth), of what drift and margin leave: about half is
        // left.
        for millis in [500, 1_000, 30_000, 86_400_000] {
            let ttl = ms(millis);
            let left = ttl - ttl / 3 - ttl / 9 - ttl / 100 - (ttl / 20).max(ms(20));
            assert!(matches!(Guard::of(ttl).advise(left), Advice::Fine(_)), "{ttl:?}");
        }
    }
}
