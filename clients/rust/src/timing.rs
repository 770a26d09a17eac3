//! Timeouts and intervals of the keeper, all derived from the shortest TTL.

use std::time::Duration;

/// The interval of checks, which bounds the time to notice that a suspended machine has resumed.
pub(crate) fn tick(shortest: Duration) -> Duration {
    (shortest / 20).clamp(Duration::from_millis(10), Duration::from_secs(1))
}

/// The timeout for the first answer on a new session or to a new attachment.
pub(crate) fn answer_timeout(ttl: Duration) -> Duration {
    (ttl / 6).clamp(Duration::from_millis(250), Duration::from_secs(5))
}

/// The longest pause before the next session is opened. The keeper takes a random part, so that the clients of a
/// stopped server do not all connect to the next one at once.
pub(crate) fn pause(shortest: Duration, tries: u32) -> Duration {
    let first = (shortest / 20).min(Duration::from_millis(500));
    first.saturating_mul(1 << tries.min(4)).min(shortest / 8).clamp(Duration::from_millis(10), Duration::from_secs(2))
}

/// The minimum time between two sessions opened by operations that find the last one ended or draining. They retry
/// after a pause.
pub(crate) const SESSION_INTERVAL_MIN: Duration = Duration::from_millis(20);

/// The minimum time between two moves of operations away from a session that works, to the preferred server. All leases
/// move with them, and if the store is the cause no server does better.
pub(crate) const MOVE_INTERVAL_MIN: Duration = Duration::from_secs(5);

/// The interval of checks of a session without leases.
pub(crate) const IDLE_TICK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_survives_the_loss_of_its_stream() {
        for ttl in [1, 3, 10, 30, 3_600].map(Duration::from_secs) {
            // Silence is noticed after half a TTL; the next server does not answer either, the one after does.
            let spent = ttl / 2 + tick(ttl) + pause(ttl, 0) + answer_timeout(ttl) + tick(ttl);
            let valid = ttl - ttl / 100 - ttl / 20;
            assert!(spent < valid, "{ttl:?}: {spent:?} of {valid:?}");
        }
    }

    #[test]
    fn pauses_are_bounded() {
        let shortest = Duration::from_secs(3_600);
        assert_eq!(pause(shortest, 100), Duration::from_secs(2));
        assert_eq!(pause(Duration::from_millis(1), 0), Duration::from_millis(10));
    }
}
