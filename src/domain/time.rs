//! The store's time, the only clock that decides about leases.

use minicbor::{Decode, Encode};
use std::time::Duration;

/// A moment on the store's clock, in microseconds since 1970. Rules get it as an argument and never read a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct StoreTime(#[n(0)] u64);

impl StoreTime {
    /// The moment that is this many microseconds after 1970 began.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970 began.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The moment `span` later, saturating.
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in whole microseconds, the resolution of the store's time.
pub fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let start = StoreTime::from_micros(5);
        assert_eq!(start.after(Duration::from_micros(7)).as_micros(), 12);
        assert_eq!(start.after(Duration::MAX), StoreTime::from_micros(u64::MAX));
        assert_eq!(start.since(StoreTime::from_micros(9)), Duration::ZERO);
        assert_eq!(StoreTime::from_micros(9).since(start), Duration::from_micros(4));
    }
}
