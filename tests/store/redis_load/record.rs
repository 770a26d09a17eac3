//! What clients saw of grants, and what must be true of it.

use std::time::Duration;
use tokio::time::Instant;

/// A grant as its client saw it.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) lock: usize,
    pub(crate) token: u64,
    /// When the request was first sent: the token was not drawn before.
    pub(crate) invoked: Instant,
    /// When the answer was here: the token was drawn by then, and the holder begins.
    pub(crate) returned: Instant,
    /// Until when the holder may act: the end of its own reckoning, or the sending of its release.
    pub(crate) ends: Instant,
}

/// By its own reckoning, as the manual has clients do it: drift of 1 % and a margin of a twentieth, 20 ms at least.
pub(crate) fn valid_until(sent: Instant, held_for: Duration, ttl: Duration) -> Instant {
    sent + held_for + ttl - ttl / 100 - (ttl / 20).max(Duration::from_millis(20))
}

/// Everything that is wrong with these grants.
pub(crate) fn wrong_with(grants: &[Grant]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, one) in grants.iter().enumerate() {
        for other in grants[number + 1..].iter().filter(|other| other.lock == one.lock) {
            if one.token == other.token {
                wrong.push(format!("one token twice: {one:?} {other:?}"));
            }
            let (low, high) = if one.token < other.token { (one, other) } else { (other, one) };
            if high.returned < low.invoked {
                wrong.push(format!("tokens fall: {high:?} then {low:?}"));
            }
            let overlap = low.returned.max(high.returned) < low.ends.min(high.ends);
            if overlap {
                wrong.push(format!("two hold it at once: {low:?} {high:?}"));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each with its token, and its times in milliseconds.
    fn wrong(grants: &[(u64, u64, u64, u64)]) -> usize {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let grants: Vec<Grant> = grants
            .iter()
            .map(|(token, invoked, returned, ends)| Grant {
                lock: 0,
                token: *token,
                invoked: at(*invoked),
                returned: at(*returned),
                ends: at(*ends),
            })
            .collect();
        wrong_with(&grants).len()
    }

    #[test]
    fn what_is_wrong_is_found() {
        assert_eq!(wrong(&[(1, 0, 1, 5), (2, 0, 6, 9), (3, 7, 9, 9)]), 0);
        assert_eq!(wrong(&[(1, 0, 1, 5), (1, 0, 6, 9)]), 1, "a token twice");
        assert_eq!(wrong(&[(2, 0, 1, 5), (1, 0, 6, 9)]), 0, "both were on their way at once");
        assert_eq!(wrong(&[(2, 0, 1, 5), (1, 2, 6, 9)]), 1, "a token that falls");
        assert_eq!(wrong(&[(1, 0, 1, 5), (2, 0, 4, 9)]), 1, "an overlap");
    }
}
