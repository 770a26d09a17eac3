//! Keeps what happens very often from flooding the log: one line tells of many.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Counts what is told once in a period.
#[derive(Debug)]
pub struct Seldom {
    period: Duration,
    untold: Mutex<Untold>,
}

#[derive(Debug, Default)]
struct Untold {
    /// Since the last line in the log.
    count: u64,
    told: Option<Instant>,
}

impl Seldom {
    /// Tells once in this period.
    pub fn new(period: Duration) -> Self {
        Self { period, untold: Mutex::default() }
    }

    /// Counts so many more. Returns how many the log has not told of yet, if it is to tell now.
    pub fn count(&self, more: u64) -> Option<u64> {
        let mut untold = self.untold.lock();
        untold.count += more;
        if untold.told.is_some_and(|told| told.elapsed() < self.period) {
            return None;
        }
        untold.told = Some(Instant::now());
        Some(std::mem::take(&mut untold.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_tells_of_all_since_the_last_one() {
        let seldom = Seldom::new(Duration::from_secs(10));
        assert_eq!(seldom.count(2), Some(2));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!((seldom.count(3), seldom.count(4)), (None, None));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(seldom.count(1), Some(8));
        assert_eq!(seldom.count(1), None);
    }
}
