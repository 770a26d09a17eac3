//! An estimate of Redis' clock, from its newest sample and the monotonic clock since.

use crate::{domain::time::StoreTime, sync::Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// The newest sample of Redis' clock.
///
/// Redis read its clock between the sending of the request and the arrival of the reply. The estimate counts from the
/// **sending**, so it is never before Redis' time, and after it by that sample's round trip at most (if neither clock
/// was set meanwhile). Counted from the arrival it would be early, and commands that are in time would be refused.
#[derive(Debug)]
pub(super) struct RedisClock(Mutex<Sample>);

#[derive(Clone, Copy, Debug)]
struct Sample {
    sent: Instant,
    redis: StoreTime,
}

impl RedisClock {
    pub(super) fn new(sent: Instant, redis: StoreTime) -> Self {
        Self(Mutex::new(Sample { sent, redis }))
    }

    /// Takes a sample, unless it has a newer one: replies are handled in any order.
    pub(super) fn sample(&self, sent: Instant, redis: StoreTime) {
        let mut newest = self.0.lock();
        if sent >= newest.sent {
            *newest = Sample { sent, redis };
        }
    }

    pub(super) fn at(&self, moment: Instant) -> StoreTime {
        let newest = *self.0.lock();
        newest.redis.after(moment.saturating_duration_since(newest.sent))
    }

    pub(super) fn not_after(&self, moment: Instant, window: Duration) -> StoreTime {
        self.at(moment).after(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_late_by_no_more_than_the_round_trip() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let redis = |ms: u64| StoreTime::from_micros(1_000_000_000 + ms * 1_000);
        // Sent at 100, read by Redis at 130 (its clock shows 130 too), answered at 150.
        let clock = RedisClock::new(at(100), redis(130));
        assert_eq!(clock.at(at(150)), redis(180), "30 late, of a round trip of 50");
        assert_eq!(clock.not_after(at(200), Duration::from_millis(500)), redis(730));
        // An older one that arrives later changes nothing; a newer one does, also when Redis' clock was set back.
        clock.sample(at(90), redis(999));
        assert_eq!(clock.at(at(150)), redis(180));
        clock.sample(at(160), redis(20));
        assert_eq!(clock.at(at(160)), redis(20));
        assert_eq!(clock.at(at(100)), redis(20), "a moment before the sample counts as the sample's own");
    }
}
