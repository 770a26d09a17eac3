//! Which damage the log has been told of: each poll finds the same again, a second later.

use parking_lot::Mutex;
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;

/// Damage that lasts is told again after this.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// When the log was told of what.
#[derive(Debug, Default)]
pub(super) struct Warned(Mutex<HashMap<(u16, String), Instant>>);

impl Warned {
    /// Whether the log is to be told of this damage in a bucket. Notes it then.
    pub(super) fn is_news(&self, bucket: u16, what: String, now: Instant) -> bool {
        let mut told = self.0.lock();
        let key = (bucket, what);
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < TOLD_AGAIN;
        if told.get(&key).is_some_and(is_recent) {
            return false;
        }
        told.retain(|_, at| is_recent(at));
        told.insert(key, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_told_when_it_is_found_and_once_a_minute_while_it_lasts() {
        let (warned, start) = (Warned::default(), Instant::now());
        let told =
            |bucket, what: &str, after| warned.is_news(bucket, what.to_owned(), start + Duration::from_secs(after));
        assert!(told(1, "a", 0));
        assert!((1..60).all(|second| !told(1, "a", second)));
        assert!(told(1, "b", 1) && told(2, "a", 1), "other damage, another bucket");
        assert!(told(1, "a", 60) && !told(1, "a", 61));
        assert_eq!(warned.0.lock().len(), 3, "1 b and 2 a are remembered for another second");
        assert!(told(3, "c", 61));
        assert_eq!(warned.0.lock().len(), 2, "what was told longer ago is forgotten");
    }
}
