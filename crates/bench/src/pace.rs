//! When operations start: one after the other, or at a fixed rate.
//!
//! At a fixed rate each operation has an intended start from which its latency counts, even if no client was free at
//! that time: a server that stalls for a second is charged with all operations that were due in it, not with one slow
//! call per client. This corrects for coordinated omission.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};
use tokio::{sync::Semaphore, time::Instant};

/// The minimum sleep of the pacing thread. A timer of the runtime would often be a millisecond late.
const STEP_MIN: Duration = Duration::from_micros(100);

#[derive(Clone, Debug)]
pub(super) enum Pace {
    /// A client starts an operation when its last one has ended.
    Closed,
    /// An idle client starts the operation that is due.
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
        thread::spawn(move || release_due(&given));
        Self::Fixed(fixed)
    }

    /// Waits for the next operation and returns its intended start; `None` at the end.
    pub(super) async fn next(&self) -> Option<Instant> {
        match self {
            Self::Closed => Some(Instant::now()),
            Self::Fixed(fixed) => {
                fixed.due.acquire().await.ok()?.forget();
                Some(fixed.intended(fixed.next.fetch_add(1, Relaxed)))
            }
        }
    }

    /// No more operations start.
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

    /// The number of operations due by now.
    fn due_by(&self, now: Instant) -> u64 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // positive, and far below the range
        let due = (now.saturating_duration_since(self.start).as_secs_f64() * self.per_second) as u64;
        due + 1
    }
}

fn release_due(fixed: &Weak<Fixed>) {
    let mut given = 0;
    while let Some(fixed) = fixed.upgrade().filter(|fixed| !fixed.due.is_closed()) {
        let due = fixed.due_by(Instant::now());
        fixed.due.add_permits(usize::try_from(due - given).unwrap_or(usize::MAX));
        given = due;
        let pause = fixed.intended(given).saturating_duration_since(Instant::now()).max(STEP_MIN);
        drop(fixed);
        // Short sleeps, so that the end of a slow run is noticed.
        thread::sleep(pause.min(Duration::from_millis(100)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn latencies_count_from_the_intended_start() {
        let pace = Pace::new(Some(1_000.0));
        let first = pace.next().await.unwrap();
        // The only client is busy for 50 ms: operations due meanwhile are late when they start.
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
    async fn operations_start_neither_before_they_are_due_nor_after_the_end() {
        let pace = Pace::new(Some(200.0));
        for _ in 0..5 {
            assert!(pace.next().await.unwrap() <= Instant::now());
        }
        pace.end();
        assert_eq!(pace.next().await, None);
        assert!(Pace::Closed.next().await.is_some());
    }
}
