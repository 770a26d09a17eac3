//! Values as text for people.

use fencepost_proto::v1::{LeaseEnd, LockDelay, LockHolder, LockMode};
use std::time::Duration;

/// A duration, rounded for people: `850 ms`, `12 s`, `2 min 5 s`, `1 h 3 min`.
pub(super) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{} ms", span.as_millis()),
        1..60 => format!("{seconds} s"),
        60..3600 => two(seconds / 60, "min", seconds % 60, "s"),
        _ => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
    }
}

fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    }
}

/// Decodes a duration of the API; zero if it is absent or out of range.
pub(super) fn from_wire(span: Option<&prost_types::Duration>) -> Duration {
    span.and_then(|span| Duration::try_from(*span).ok()).unwrap_or_default()
}

/// Encodes a duration for the API.
pub(super) fn to_wire(span: Duration) -> prost_types::Duration {
    // Only durations of billions of years do not fit. The server refuses the largest one that does, with a message.
    prost_types::Duration::try_from(span).unwrap_or(prost_types::Duration { seconds: i64::MAX, nanos: 0 })
}

/// The holders that an answer shows, and how many there are in all.
pub(super) type Holders<'a> = (&'a [LockHolder], u32);

/// The holders of a lock and the time left, or why nobody gets it, and the number of waiters.
pub(super) fn held(lock_name: &str, holders: Holders<'_>, delay: Option<&LockDelay>, waiters: u32) -> String {
    let who = format!("{} is {}", visible(lock_name), state(holders, delay));
    match waiters {
        0 => who,
        1 => format!("{who}; 1 waiter"),
        _ => format!("{who}; {waiters} waiters"),
    }
}

/// The state of a lock that is not free; the text follows "is".
pub(super) fn state((holders, count): Holders<'_>, delay: Option<&LockDelay>) -> String {
    match (holders, delay) {
        ([], Some(delay)) => unavailable(delay),
        ([], None) => "being offered to the next waiter".to_owned(),
        _ => {
            let how = if holders[0].mode() == LockMode::Shared { "shared" } else { "held" };
            let shown = holders.iter().map(holder);
            let more = u32::try_from(holders.len()).map_or(0, |shown| count.saturating_sub(shown));
            let who = format!("{how} by {}", list(shown.chain((more > 0).then(|| format!("{more} more")))));
            delay.map_or_else(|| who.clone(), |delay| format!("{who}, and a place of it is {}", unavailable(delay)))
        }
    }
}

fn unavailable(delay: &LockDelay) -> String {
    let left = span(from_wire(delay.remaining.as_ref()));
    format!("unavailable for another {left} (delay after {}, token {})", name(&delay.holder), delay.fencing_token)
}

/// A holder and the time left.
pub(super) fn holder(holder: &LockHolder) -> String {
    let left = span(from_wire(holder.expires_in.as_ref()));
    match holder.fencing_token {
        // A classic client has no token, and its key may have no TTL.
        0 if holder.expires_in.is_none() => format!("{}, without a TTL", visible(&holder.holder)),
        0 => format!("{} for another {left}", visible(&holder.holder)),
        token => format!("{} (token {token}{}) for another {left}", name(&holder.holder), permits(holder, ", ")),
    }
}

/// What it has of a semaphore, after this text: its slot, or its permits.
pub(super) fn permits(holder: &LockHolder, before: &str) -> String {
    match (holder.permits, holder.slot) {
        (0, _) => String::new(),
        (1, slot) => format!("{before}slot {slot}"),
        (permits, _) => format!("{before}{permits} permits"),
    }
}

/// What there is to say of a holder besides its label: how it shares the lock, its owner, its identity, the number of
/// its last description.
pub(super) fn remarks(holder: &LockHolder) -> Vec<String> {
    let how = match (holder.mode(), holder.permits) {
        (LockMode::Shared, _) => Some("shared".to_owned()),
        (_, 0) => None,
        _ => Some(permits(holder, "")),
    };
    let labels = [("owner", &holder.owner), ("identity", &holder.identity)];
    let given = labels.into_iter().filter(|(_, text)| !text.is_empty());
    let described = (holder.description > 0).then(|| format!("description {}", holder.description));
    how.into_iter().chain(given.map(|(label, text)| format!("{label} {}", visible(text)))).chain(described).collect()
}

/// `a`, `a and b`, `a and b and c`.
pub(super) fn list(items: impl IntoIterator<Item = impl ToString>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(" and ")
}

/// The label of a holder, or a text for a holder without one.
pub(super) fn name(holder: &str) -> String {
    if holder.is_empty() { "a holder without a label".to_owned() } else { visible(holder) }
}

/// Text that others chose, for a terminal or a log: characters that are not seen (of control, of the direction of
/// writing, spaces of other kinds) are escaped, as in `\u{202e}`. A text without them stays as it is, quotes and
/// backslashes included.
pub(super) fn visible(text: &str) -> String {
    let escaped = |part: &str| match part.strip_suffix(KEPT) {
        Some(rest) => format!("{}{}", rest.escape_debug(), &part[rest.len()..]),
        None => part.escape_debug().to_string(),
    };
    text.split_inclusive(KEPT).map(escaped).collect()
}

/// What [`str::escape_debug`] escapes although it can be seen.
const KEPT: [char; 3] = ['\'', '"', '\\'];

/// How a lease ended; the text follows "the lease".
pub(super) fn end(end: LeaseEnd) -> &'static str {
    match end {
        LeaseEnd::Released => "was released",
        LeaseEnd::Expired => "expired",
        LeaseEnd::Revoked => "was revoked",
        // Superseded only adds that there is a lease now, which the token of the successor tells: the server knows no
        // more of a lease that ended a while ago than of one that never existed.
        LeaseEnd::Superseded | LeaseEnd::Unknown | LeaseEnd::Unspecified => {
            "is not known to the server: it ended a while ago, or never existed"
        }
    }
}

/// Adds the token of the current lease to the end of an earlier one; empty if there is none.
pub(super) fn successor(token: u64) -> String {
    if token == 0 { String::new() } else { format!("; the lock is now held under token {token}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (millis, text) in [
            (0, "0 ms"),
            (850, "850 ms"),
            (12_900, "12 s"),
            (60_000, "1 min"),
            (125_000, "2 min 5 s"),
            (3_600_000, "1 h"),
            (3_780_000, "1 h 3 min"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn a_refusal_names_the_holders_and_the_time_left() {
        let holder = LockHolder {
            holder: "worker-7".to_owned(),
            fencing_token: 1763,
            expires_in: Some(to_wire(Duration::from_secs(12))),
            ..Default::default()
        };
        let text = "orders/42 is held by worker-7 (token 1763) for another 12 s";
        let other = LockHolder { holder: String::new(), fencing_token: 1764, ..holder.clone() };
        let both = format!("{text} and a holder without a label (token 1764) for another 12 s; 3 waiters");
        let holders = [holder, other];
        assert_eq!(held("orders/42", (&holders[..1], 1), None, 0), text);
        assert_eq!(held("orders/42", (&holders[..1], 1), None, 1), format!("{text}; 1 waiter"));
        assert_eq!(held("orders/42", (&holders, 2), None, 3), both);
        assert_eq!(held("orders/42", (&[], 0), None, 0), "orders/42 is being offered to the next waiter");
        let remaining = Some(to_wire(Duration::from_secs(24)));
        let delay = LockDelay { remaining, holder: "worker-7".to_owned(), fencing_token: 1763 };
        let text = "a is unavailable for another 24 s (delay after worker-7, token 1763); 1 waiter";
        assert_eq!(held("a", (&[], 0), Some(&delay), 1), text);
        let beside =
            "a is held by worker-7 (token 1763) for another 12 s, and a place of it is unavailable for another 24 s";
        assert!(held("a", (&holders[..1], 1), Some(&delay), 0).starts_with(beside));
    }

    #[test]
    fn characters_that_are_not_seen_are_escaped_and_nothing_else() {
        for plain in ["", "orders/42", r#"it's "a" \ b"#, "日本語 café", "cafe\u{301}", "🦀"] {
            assert_eq!(visible(plain), plain);
        }
        assert_eq!(visible("a\u{202e}b\u{2066}c\u{200b}"), r"a\u{202e}b\u{2066}c\u{200b}");
        assert_eq!(visible("a\n\r\t\0\u{1b}[2J\u{9b}\u{7f}"), r"a\n\r\t\0\u{1b}[2J\u{9b}\u{7f}");
        assert_eq!(visible("\u{feff}\u{ad}\u{2028}\u{a0}"), r"\u{feff}\u{ad}\u{2028}\u{a0}");
        assert_eq!(visible(&visible("'\u{202e}'")), visible("'\u{202e}'"), "once is enough");
    }

    #[test]
    fn spans_survive_the_wire() {
        let span = Duration::from_millis(1500);
        assert_eq!(from_wire(Some(&to_wire(span))), span);
        assert_eq!(from_wire(Some(&prost_types::Duration { seconds: -1, nanos: 0 })), Duration::ZERO);
        assert_eq!(to_wire(Duration::MAX).seconds, i64::MAX);
    }
}
