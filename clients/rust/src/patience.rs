//! How long the keeper waits for what, measured by the shortest TTL. All of its times are in this file.

use std::time::Duration;

/// How often the keeper looks: the longest that it takes to notice a machine that woke up from being suspended.
pub(crate) fn tick(shortest: Duration) -> Duration {
    (shortest / 20).clamp(Duration::from_millis(10), Duration::from_secs(1))
}

/// How long a new stream, or a new attachment, may go without an answer.
pub(crate) fn first_answer(ttl: Duration) -> Duration {
    (ttl / 6).clamp(Duration::from_millis(250), Duration::from_secs(5))
}

/// The longest pause before the next stream is opened, of which a random part is taken: so that the clients of a server
/// that went away do not all come to the next at once.
pub(crate) fn pause(shortest: Duration, tries: u32) -> Duration {
    let first = (shortest / 20).min(Duration::from_millis(500));
    first.saturating_mul(1 << tries.min(4)).min(shortest / 8).clamp(Duration::from_millis(10), Duration::from_secs(2))
}

/// How soon after one session the next may be opened for operations that find it ended or draining: they pause and come
/// again.
pub(crate) const BETWEEN_SESSIONS: Duration = Duration::from_millis(20);

/// How soon after the last time operations may leave a session that works, for a server that is thought to do better.
/// All leases move with them, and where the store is the trouble no server does better.
pub(crate) const BETWEEN_MOVES: Duration = Duration::from_secs(5);

/// How often to look whether a session without leases is of use to anybody.
pub(crate) const IDLE_TICK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_survives_the_loss_of_its_stream() {
        for ttl in [1, 3, 10, 30, 3_600].map(Duration::from_secs) {
            // Silence is noticed after half a TTL; the first server tried then does not answer either, the second does.
            let spent = ttl / 2 + tick(ttl) + pause(ttl, 0) + first_answer(ttl) + tick(ttl);
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
