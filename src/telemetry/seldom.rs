//! Rate limit of log lines: one line reports many similar events.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Counts what is told once in a period, or a few times.
#[derive(Debug)]
pub struct Seldom {
    lines_max: u32,
    period: Duration,
    untold: Mutex<Untold>,
}

#[derive(Debug, Default)]
struct Untold {
    /// Since the last line in the log.
    count: u64,
    /// When the first line of the period was written.
    began: Option<Instant>,
    /// Lines of the period.
    lines: u32,
}

impl Seldom {
    /// Tells once in this period.
    pub fn new(period: Duration) -> Self {
        Self::with_lines(1, period)
    }

    /// Tells so many times in this period.
    pub fn with_lines(lines_max: u32, period: Duration) -> Self {
        Self { lines_max, period, untold: Mutex::default() }
    }

    /// Counts so many more. Returns how many the log has not told of yet, if it is to tell now.
    pub fn count(&self, more: u64) -> Option<u64> {
        let mut untold = self.untold.lock();
        untold.count += more;
        if untold.began.is_none_or(|began| began.elapsed() >= self.period) {
            (untold.began, untold.lines) = (Some(Instant::now()), 0);
        }
        if untold.lines == self.lines_max {
            return None;
        }
        untold.lines += 1;
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

    #[tokio::test(start_paused = true)]
    async fn a_few_lines_may_be_told_in_a_period() {
        let seldom = Seldom::with_lines(2, Duration::from_secs(10));
        let tell = |times: usize| (0..times).map(|_| seldom.count(1)).collect::<Vec<_>>();
        assert_eq!(tell(5), [Some(1), Some(1), None, None, None]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(tell(3), [Some(4), Some(1), None]);
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(tell(1), [Some(2)]);
    }
}
