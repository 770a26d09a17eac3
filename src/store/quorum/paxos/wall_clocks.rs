//! Wall clocks: the lower bound of new tokens when all earlier tokens are lost.
//!
//! Nothing is left then but clocks, which may differ. A store that goes on at once, above the latest clock, is ahead of
//! the others: if all is lost again, and that clock was wrong, the next store begins below. So it waits until the
//! earliest clock shows what the latest one showed when the loss was seen, and begins 60 s above that. Then
//!
//! - while it draws tokens, they are no further above the *earliest* clock than those 60 s, because a sequencer draws
//!   less than one token each microsecond;
//! - the next one begins these 60 s above what the *latest* clock showed at its loss.
//!
//! So tokens rise from one to the next unless all clocks of the next one are behind all of the one before: one clock
//! that is right, each time, is enough. If clocks agree, nobody waits. More than [`TOKEN_SKIP`] is not waited for: so
//! far apart they may all the same be.

use crate::domain::{
    limits::TOKEN_SKIP,
    time::{StoreTime, micros},
};
use std::time::Duration;

/// What wall clocks show at a moment, in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClocks {
    earliest: u64,
    latest: u64,
}

impl WallClocks {
    /// The clock of this machine, and those of nodes.
    pub fn of(own: StoreTime, nodes: impl IntoIterator<Item = u64>) -> Self {
        let own = own.as_micros();
        let add = |it: Self, node: u64| Self { earliest: it.earliest.min(node), latest: it.latest.max(node) };
        nodes.into_iter().fold(Self { earliest: own, latest: own }, add)
    }

    /// How long the earliest clock takes to show what the latest one shows, as far as that is waited for.
    pub fn apart(self) -> Duration {
        // mutant: clocks are not waited for
        Duration::from_micros(self.latest - self.earliest).min(TOKEN_SKIP)
    }

    /// What tokens go on above so long after the loss was seen. The wait is over if that is [`Self::apart`] or more.
    pub fn tokens_above(self, waited: Duration) -> u64 {
        // mutant: tokens above the latest clock
        let passed = micros(self.apart().min(waited));
        (self.latest - passed).saturating_add(micros(TOKEN_SKIP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000_000;
    const SECOND: u64 = 1_000_000;

    /// A server's clock, and that of its only node, so many seconds from the right time.
    fn clocks(now: u64, errors: [i64; 2]) -> WallClocks {
        let [own, node] = errors.map(|error| now.saturating_add_signed(error * 1_000_000));
        WallClocks::of(StoreTime::from_micros(own), [node])
    }

    /// The last token of a store that was made when nothing was known, at `now`, and how long that took.
    fn first_token(now: u64, errors: [i64; 2]) -> (u64, u64) {
        let waited = clocks(now, errors).apart();
        let begins = now + micros(waited);
        (clocks(begins, errors).tokens_above(waited) + 1, begins)
    }

    #[test]
    fn clocks_that_agree_are_not_waited_for() {
        assert_eq!(clocks(NOW, [0, 0]).apart(), Duration::ZERO);
        assert_eq!(first_token(NOW, [0, 0]), (NOW + 60 * SECOND + 1, NOW));
        assert_eq!(clocks(NOW, [0, 0]).tokens_above(Duration::from_secs(3)), NOW + 60 * SECOND);
    }

    #[test]
    fn tokens_rise_from_loss_to_loss_if_one_clock_is_right_each_time() {
        let pairs = [[0, 0], [0, 40], [40, 0], [0, -40], [-40, 0], [0, 59], [59, 0], [0, -59], [-59, 0]];
        for before in pairs {
            for after in pairs {
                let (first, begun) = first_token(NOW, before);
                // All is lost at once.
                let (second, _) = first_token(begun + 1_000, after);
                assert!(second > first, "{before:?}, {after:?}: {second} after {first}");
            }
        }
    }

    #[test]
    fn what_goes_on_before_the_wait_is_over_begins_above_what_any_clock_showed_at_the_loss() {
        for errors in [[0, 40], [40, 0], [-40, 0]] {
            let waited = Duration::from_secs(1);
            let latest_at_the_loss = NOW.saturating_add_signed(errors.into_iter().max().unwrap() * 1_000_000);
            let above = clocks(NOW + micros(waited), errors).tokens_above(waited);
            assert_eq!(above, latest_at_the_loss + 60 * SECOND);
        }
    }

    #[test]
    fn more_than_a_minute_is_not_waited_for() {
        let far = clocks(NOW, [0, 3_600]);
        assert_eq!(far.apart(), TOKEN_SKIP);
        assert_eq!(far.tokens_above(Duration::from_secs(100)), NOW + 3_600 * SECOND);
    }
}
