//! Until when a lease is valid by its holder's clock. All of that arithmetic is in this file.
//!
//! `valid until = sent + held_for + ttl - drift - margin`. The server counts `ttl` from `held_for` after the arrival of
//! the request, which is after it was sent: whatever the network did, the lease ends later on the server. The drift
//! allows for different clock rates, the margin for the time between a check and the action that follows.

use crate::clock::Moment;
use crate::facts::{DRIFT_DIVISOR, MARGIN_DIVISOR, MARGIN_MIN_MS};
use std::time::Duration;

/// What an answer says about a lease, and when its request was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// When the transmission that was answered was sent.
    pub(crate) sent: Moment,
    /// When the answer was received.
    pub(crate) read: Moment,
    /// How long the server held the request before it asked its store.
    pub(crate) held_for: Duration,
    /// The remaining TTL at that time.
    pub(crate) ttl: Duration,
}

impl Reading {
    /// The end of the lease by the holder's clock.
    pub(crate) fn valid_until(self) -> Moment {
        // The server cannot have held the request for longer than the whole exchange took. A faster server clock may
        // report more after a long wait; the holder's clock decides.
        let held_for = self.held_for.min(self.read.since(self.sent));
        let kept_back =
            self.ttl / DRIFT_DIVISOR + (self.ttl / MARGIN_DIVISOR).max(Duration::from_millis(MARGIN_MIN_MS));
        self.sent.plus(held_for).plus(self.ttl).minus(kept_back)
    }
}

/// Whether so little is left of a lease that a renewal must have failed. A lease is renewed when a third of its TTL has
/// passed, with the next beat (a ninth); here more than half of it has.
pub(crate) fn is_overdue(valid_until: Moment, now: Moment, ttl: Duration) -> bool {
    valid_until.since(now) < ttl / 20 * 7
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn reading(held_for: u64, ttl: u64, took: u64) -> (Moment, Moment) {
        let sent = Moment::now();
        let read = sent.plus(ms(took));
        (sent, Reading { sent, read, held_for: ms(held_for), ttl: ms(ttl) }.valid_until())
    }

    #[test]
    fn counts_from_sending_less_drift_and_margin() {
        let (sent, until) = reading(0, 30_000, 5);
        assert_eq!(until.since(sent), ms(30_000 - 300 - 1_500));
    }

    #[test]
    fn a_short_lease_keeps_the_least_margin() {
        let (sent, until) = reading(0, 100, 5);
        assert_eq!(until.since(sent), ms(100 - 1 - 20));
    }

    #[test]
    fn time_in_the_queue_is_added() {
        let (sent, until) = reading(60_000, 30_000, 60_010);
        assert_eq!(until.since(sent), ms(60_000 + 28_200));
    }

    #[test]
    fn the_server_cannot_have_held_a_request_longer_than_it_took() {
        let (sent, until) = reading(3_600_000, 30_000, 20);
        assert_eq!(until.since(sent), ms(20 + 28_200));
    }

    #[test]
    fn nothing_left_is_over_at_once() {
        let (sent, until) = reading(0, 0, 0);
        assert!(until < sent);
        let (sent, until) = reading(0, 10, 0);
        assert!(until < sent);
    }

    #[test]
    fn overdue_after_more_than_half() {
        let now = Moment::now();
        assert!(!is_overdue(now.plus(ms(500)), now, ms(1_000)), "a renewal every 4/9 leaves as much");
        assert!(is_overdue(now.plus(ms(340)), now, ms(1_000)));
        assert!(is_overdue(now.minus(ms(1)), now, ms(1_000)));
    }
}
