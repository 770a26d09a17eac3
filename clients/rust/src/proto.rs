//! Conversion between durations and their wire form.

use std::time::Duration;

/// Decodes a duration. Missing, negative and unnormalised ones are zero. (prost's own conversion normalises first, and
/// panics on some of them in a debug build.)
pub(crate) fn duration(wire: Option<prost_types::Duration>) -> Duration {
    let read = |wire: prost_types::Duration| {
        let nanos = u32::try_from(wire.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
        Some(Duration::new(u64::try_from(wire.seconds).ok()?, nanos))
    };
    wire.and_then(read).unwrap_or_default()
}

/// Encodes a duration. One that does not fit exceeds every bound of a server, which refuses it.
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
    fn durations_survive_a_round_trip() {
        for millis in [0, 1, 1_500, 86_400_000] {
            let there = Duration::from_millis(millis);
            assert_eq!(duration(wire(there)), there);
        }
    }

    #[test]
    fn invalid_durations_are_zero_and_long_ones_clamped() {
        assert_eq!(duration(None), Duration::ZERO);
        for (seconds, nanos) in [(-1, 0), (0, -1), (i64::MIN, 0), (i64::MIN, i32::MIN), (1, i32::MAX)] {
            assert_eq!(duration(Some(prost_types::Duration { seconds, nanos })), Duration::ZERO);
        }
        assert_eq!(duration(wire(Duration::MAX)).as_secs(), 315_576_000_000);
    }
}
