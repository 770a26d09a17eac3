//! The time of a partition, the only clock that decides about its leases.

use crate::domain::time::StoreTime;

/// A partition's time at its leader: it went on from what the partition's header says, with the leader's monotonic
/// clock. While nobody leads it stands still, so that a lease can only last longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionTime {
    base: StoreTime,
    resumed: StoreTime,
}

impl PartitionTime {
    /// Goes on from `base`, since the leader's clock showed `resumed`. That moment is not before the second promise of
    /// a majority: from then on no older leader writes, and so none advances the time.
    pub(crate) const fn resumed(base: StoreTime, resumed: StoreTime) -> Self {
        Self { base, resumed }
    }

    /// The partition's time when the leader's clock shows `clock`.
    pub(crate) fn at(self, clock: StoreTime) -> StoreTime {
        self.base.after(clock.since(self.resumed))
    }

    /// What the leader's clock shows when the partition's time is `time`.
    pub(crate) fn when(self, time: StoreTime) -> StoreTime {
        self.resumed.after(time.since(self.base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advances_with_the_clock_of_its_leader_whatever_that_clock_shows() {
        let time = PartitionTime::resumed(StoreTime::from_micros(100), StoreTime::from_micros(7_000_000));
        assert_eq!(time.at(StoreTime::from_micros(7_000_000)).as_micros(), 100);
        assert_eq!(time.at(StoreTime::from_micros(7_000_250)).as_micros(), 350);
        assert_eq!(time.at(StoreTime::from_micros(6_000_000)).as_micros(), 100, "a clock never goes back");
        assert_eq!(time.when(StoreTime::from_micros(350)).as_micros(), 7_000_250);
    }
}
