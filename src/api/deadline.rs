//! The deadline of a call, from its `grpc-timeout` header. The server drops the handler at the deadline, so a wait ends
//! a little earlier: the caller must still receive its outcome.

use hyper::HeaderMap;
use std::time::Duration;
use tokio::time::Instant;

/// The most digits that the gRPC specification allows in the header.
const DIGITS_MAX: usize = 8;

/// When the caller gives up; `None` if the call has no deadline.
pub fn deadline(headers: &HeaderMap, arrived: impl FnOnce() -> Instant) -> Option<Instant> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    arrived().checked_add(parse(text)?)
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
    fn parses_what_the_specification_allows_and_nothing_else() {
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
