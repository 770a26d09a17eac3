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

/// A lease of a stream: how its lock's store groups it, and its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// See [`LockStore::group`](crate::store::LockStore::group).
    pub(super) group: u16,
    /// The client's number for it.
    pub(super) handle: u32,
}

/// When the leases of a stream want to be renewed.
#[derive(Debug, Default)]
pub(super) struct Pace {
    due: BTreeSet<(Instant, Place)>,
    ttls: BTreeMap<Duration, usize>,
}

impl Pace {
    /// Takes a lease in, renewed at `at`. Answers when it is due, to be handed back to [`Pace::remove`].
    pub(super) fn add(&mut self, place: Place, ttl: Duration, at: Instant) -> Instant {
        let due = at + ttl / RENEW_AFTER;
        self.due.insert((due, place));
        *self.ttls.entry(ttl).or_default() += 1;
        due
    }

    /// Takes a lease out.
    pub(super) fn remove(&mut self, place: Place, ttl: Duration, due: Instant) {
        self.due.remove(&(due, place));
        if let Some(count) = self.ttls.get_mut(&ttl) {
            *count -= 1;
            if *count == 0 {
                self.ttls.remove(&ttl);
            }
        }
    }

    /// The leases that are due at `now`, group by group.
    pub(super) fn due(&self, now: Instant) -> Vec<Place> {
        Self::grouped(self.due.iter().take_while(move |(due, _)| *due <= now))
    }

    /// All of them, group by group.
    pub(super) fn all(&self) -> Vec<Place> {
        Self::grouped(self.due.iter())
    }

    fn grouped<'a>(due: impl Iterator<Item = &'a (Instant, Place)>) -> Vec<Place> {
        let mut places: Vec<_> = due.map(|(_, place)| *place).collect();
        places.sort_unstable();
        places
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

    /// The higher the handle, the lower the group.
    fn place(handle: u32) -> Place {
        Place { group: u16::try_from(10 - handle).unwrap(), handle }
    }

    #[tokio::test(start_paused = true)]
    async fn leases_are_due_after_a_third_and_the_shortest_ttl_sets_the_period() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut pace = Pace::default();
        assert_eq!(pace.period(), BEAT_PERIOD_MAX);
        let long = pace.add(place(1), 30 * second, start);
        let short = pace.add(place(2), 9 * second, start);
        assert_eq!(pace.period(), second);
        assert_eq!(pace.due(start + 3 * second - Duration::from_nanos(1)).len(), 0);
        assert_eq!(pace.due(start + 3 * second), [place(2)]);
        assert_eq!(pace.all(), [place(2), place(1)]);
        assert_eq!(pace.due(start + 10 * second), [place(2), place(1)]);
        pace.remove(place(2), 9 * second, short);
        assert_eq!(pace.period(), 30 * second / 9);
        assert_eq!(pace.due(start + 10 * second), [place(1)]);
        pace.remove(place(1), 30 * second, long);
        assert_eq!(pace.period(), BEAT_PERIOD_MAX);
        assert_eq!(pace.due(start + 100 * second).len(), 0);
    }
}
