//! The call's own deadline, from the `grpc-timeout` header. tonic drops the handler when it is over; a wait must end
//! before, in order, or the caller would not learn what came of it.

use std::time::Duration;
use tokio::time::Instant;
use tonic::metadata::MetadataMap;

/// The header holds at most this many digits, by the gRPC specification.
const DIGITS_MAX: usize = 8;

/// When the caller gives up by itself, if it said so.
pub(super) fn deadline(metadata: &MetadataMap, arrived: Instant) -> Option<Instant> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    arrived.checked_add(parse(text)?)
}

fn parse(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let digits = text.strip_suffix(unit)?;
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(count * 60 * 60),
        'M' => Duration::from_secs(count * 60),
        'S' => Duration::from_secs(count),
        'm' => Duration::from_millis(count),
        'u' => Duration::from_micros(count),
        'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_specification_allows_and_nothing_else() {
        assert_eq!(parse("5S"), Some(Duration::from_secs(5)));
        assert_eq!(parse("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        assert_eq!(parse("1M"), Some(Duration::from_secs(60)));
        assert_eq!(parse("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse("7u"), Some(Duration::from_micros(7)));
        assert_eq!(parse("7n"), Some(Duration::from_nanos(7)));
        for bad in ["", "S", "5", "5s", "-5S", "123456789S", "5 S", "5é", "é"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
