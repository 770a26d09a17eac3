//! When operations begin: one after the other, or at a fixed rate.
//!
//! At a fixed rate an operation has a time at which it is to begin, and its latency counts from then, also if no client
//! was free to begin it: a server that stands still for a second is charged with all that should have happened in it,
//! not with one slow call a client. That is the correction for coordinated omission.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};
use tokio::{sync::Semaphore, time::Instant};

/// The thread that gives the time wakes at most this often: a timer of the runtime would be a millisecond late as often
/// as not.
const STEP_MIN: Duration = Duration::from_micros(100);

#[derive(Clone, Debug)]
pub(super) enum Pace {
    /// A client begins when it has ended.
    Closed,
    /// Whoever is free begins what is due.
    Fixed(Arc<Fixed>),
}

#[derive(Debug)]
pub(super) struct Fixed {
    start: Instant,
    per_second: f64,
    next: AtomicU64,
    due: Semaphore,
}

impl Pace {
    pub(super) fn new(per_second: Option<f64>) -> Self {
        let Some(per_second) = per_second else { return Self::Closed };
        let start = Instant::now();
        let fixed = Arc::new(Fixed { start, per_second, next: AtomicU64::new(0), due: Semaphore::new(0) });
        let given = Arc::downgrade(&fixed);
        thread::spawn(move || give_time(&given));
        Self::Fixed(fixed)
    }

    /// Waits for the next operation and says when it was to begin; nothing, when there are no more.
    pub(super) async fn next(&self) -> Option<Instant> {
        match self {
            Self::Closed => Some(Instant::now()),
            Self::Fixed(fixed) => {
                fixed.due.acquire().await.ok()?.forget();
                Some(fixed.intended(fixed.next.fetch_add(1, Relaxed)))
            }
        }
    }

    /// No more operations begin.
    pub(super) fn end(&self) {
        if let Self::Fixed(fixed) = self {
            fixed.due.close();
        }
    }
}

impl Fixed {
    fn intended(&self, operation: u64) -> Instant {
        self.start + Duration::from_secs_f64(operation as f64 / self.per_second)
    }

    /// How many operations are due by now, from the start on.
    fn due_by(&self, now: Instant) -> u64 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // of a positive number below any bound that matters
        let due = (now.saturating_duration_since(self.start).as_secs_f64() * self.per_second) as u64;
        due + 1
    }
}

fn give_time(fixed: &Weak<Fixed>) {
    let mut given = 0;
    while let Some(fixed) = fixed.upgrade().filter(|fixed| !fixed.due.is_closed()) {
        let due = fixed.due_by(Instant::now());
        fixed.due.add_permits(usize::try_from(due - given).unwrap_or(usize::MAX));
        given = due;
        let pause = fixed.intended(given).saturating_duration_since(Instant::now()).max(STEP_MIN);
        drop(fixed);
        // Not for long at once, so that the end of a slow run is seen.
        thread::sleep(pause.min(Duration::from_millis(100)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn latencies_count_from_when_it_was_to_begin() {
        let pace = Pace::new(Some(1_000.0));
        let first = pace.next().await.unwrap();
        // The only client was busy for 50 ms: what was due meanwhile is late already when it begins.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut late = Vec::new();
        for expected in 1..=40 {
            let intended = pace.next().await.unwrap();
            assert_eq!(intended, first + Duration::from_millis(expected));
            late.push(intended.elapsed());
        }
        assert!(late[0] >= Duration::from_millis(48), "{late:?}");
        assert!(late[39] >= Duration::from_millis(9) && late[39] < late[0], "{late:?}");
    }

    #[tokio::test]
    async fn nothing_begins_before_it_is_due_and_nothing_after_the_end() {
        let pace = Pace::new(Some(200.0));
        for _ in 0..5 {
            assert!(pace.next().await.unwrap() <= Instant::now());
        }
        pace.end();
        assert_eq!(pace.next().await, None);
        assert!(Pace::Closed.next().await.is_some());
    }
}
