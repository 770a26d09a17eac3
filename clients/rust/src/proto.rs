//! Between this crate's durations and those on the wire.

use std::time::Duration;

/// A duration that a server sent; absent and negative ones count as none.
pub(crate) fn duration(wire: Option<prost_types::Duration>) -> Duration {
    wire.and_then(|wire| Duration::try_from(wire).ok()).unwrap_or_default()
}

/// A duration for a server. One that does not fit is beyond every bound a server has: it will say so.
pub(crate) fn wire(duration: Duration) -> Option<prost_types::Duration> {
    const LONGEST: prost_types::Duration = prost_types::Duration { seconds: 315_576_000_000, nanos: 0 };
    Some(
        prost_types::Duration::try_from(duration).ok().filter(|wire| wire.seconds < LONGEST.seconds).unwrap_or(LONGEST),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for millis in [0, 1, 1_500, 86_400_000] {
            let there = Duration::from_millis(millis);
            assert_eq!(duration(wire(there)), there);
        }
    }

    #[test]
    fn what_does_not_fit() {
        assert_eq!(duration(None), Duration::ZERO);
        assert_eq!(duration(Some(prost_types::Duration { seconds: -1, nanos: 0 })), Duration::ZERO);
        assert_eq!(duration(wire(Duration::MAX)).as_secs(), 315_576_000_000);
    }
}
