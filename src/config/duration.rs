//! Durations as people write them.

use std::time::Duration;

/// A duration as people write it, and as the configuration accepts it: `250ms`, `1m 30s`, `24h`.
pub(crate) fn as_written(span: Duration) -> String {
    const HOUR: u64 = 60 * 60;
    // humantime writes 24 hours as 1day, and knows months of 30.44 days.
    let (hours, rest) = (span.as_secs() / HOUR, Duration::new(span.as_secs() % HOUR, span.subsec_nanos()));
    match (hours, rest.is_zero()) {
        (0, _) => humantime::format_duration(rest).to_string(),
        (_, true) => format!("{hours}h"),
        (_, false) => format!("{hours}h {}", humantime::format_duration(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_people_do_and_can_be_read() {
        for (millis, text) in [
            (0, "0s"),
            (250, "250ms"),
            (90_500, "1m 30s 500ms"),
            (3_600_000, "1h"),
            (86_400_000, "24h"),
            (90_000_000, "25h"),
            (31 * 86_400_000 + 60_000, "744h 1m"),
        ] {
            let span = Duration::from_millis(millis);
            assert_eq!(as_written(span), text);
            assert_eq!(humantime::parse_duration(text), Ok(span));
        }
    }
}
