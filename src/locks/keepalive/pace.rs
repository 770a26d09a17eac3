//! The pace of a stream: when to beat, and which leases an answer renews.

use crate::domain::limits::{BEAT_PERIOD_MAX, BEATS_PER_TTL};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::time::Instant;

/// After this part of its TTL a lease is renewed by the next answer: two renewals may fail before the third one must
/// not.
const RENEW_AFTER: u32 = 3;

/// When the leases of a stream are due for renewal, by handle.
#[derive(Debug, Default)]
pub(super) struct Pace {
    due: BTreeSet<(Instant, u32)>,
    ttls: BTreeMap<Duration, usize>,
}

impl Pace {
    /// Adds a lease that was renewed at `at`. Returns when it is due, for [`Pace::remove`].
    pub(super) fn add(&mut self, handle: u32, ttl: Duration, at: Instant) -> Instant {
        let due = at + ttl / RENEW_AFTER;
        self.due.insert((due, handle));
        *self.ttls.entry(ttl).or_default() += 1;
        due
    }

    /// Removes a lease.
    pub(super) fn remove(&mut self, handle: u32, ttl: Duration, due: Instant) {
        self.due.remove(&(due, handle));
        if let Some(count) = self.ttls.get_mut(&ttl) {
            *count -= 1;
            if *count == 0 {
                self.ttls.remove(&ttl);
            }
        }
    }

    /// The leases that are due at `now`, the most urgent first.
    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = u32> {
        self.due.iter().take_while(move |(due, _)| *due <= now).map(|(_, handle)| *handle)
    }

    /// All leases, the most urgent first.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> {
        self.due.iter().map(|(_, handle)| *handle)
    }

    /// The time from one beat to the next.
    pub(super) fn period(&self) -> Duration {
        let shortest = self.ttls.keys().next().copied().unwrap_or(Duration::MAX);
        (shortest / BEATS_PER_TTL).min(BEAT_PERIOD_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn leases_are_due_after_a_third_and_the_shortest_ttl_sets_the_period() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut pace = Pace::default();
        assert_eq!(pace.period(), BEAT_PERIOD_MAX);
        let long = pace.add(1, 30 * second, start);
        let short = pace.add(2, 9 * second, start);
        assert_eq!(pace.period(), second);
        let due = |pace: &Pace, after: Duration| pace.due(start + after).collect::<Vec<_>>();
        assert_eq!(due(&pace, 3 * second - Duration::from_nanos(1)).len(), 0);
        assert_eq!(due(&pace, 3 * second), [2]);
        assert!(pace.all().eq([2, 1]));
        assert_eq!(due(&pace, 10 * second), [2, 1]);
        pace.remove(2, 9 * second, short);
        assert_eq!(pace.period(), 30 * second / 9);
        assert_eq!(due(&pace, 10 * second), [1]);
        pace.remove(1, 30 * second, long);
        assert_eq!(pace.period(), BEAT_PERIOD_MAX);
        assert_eq!(due(&pace, 100 * second).len(), 0);
    }
}
