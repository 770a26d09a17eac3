//! Counts the operations of one run during the measured time.

use super::caller::Failure;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use tokio::time::Instant;

/// The maximum number of distinct error messages; there are few, unless they contain numbers.
const ERRORS_MAX: usize = 16;

/// One grant of the contended lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    /// The order of grants.
    pub order: u64,
    /// The client that was granted the lock.
    pub client: usize,
    /// When the call was sent.
    pub sent: Instant,
    /// When it had arrived at the latest.
    pub arrived: Instant,
}

/// The counts. All clients share one tally: they run on one thread by default, and a histogram for each of them would
/// evict data of server and Redis from the CPU caches.
#[derive(Debug)]
pub(super) struct Tally {
    /// Latencies of operations, in nanoseconds.
    pub whole: Histogram<u64>,
    /// Latencies of their acquires, in nanoseconds.
    pub part: Histogram<u64>,
    pub grants: Vec<Grant>,
    /// Operations by client.
    pub shares: Vec<u64>,
    pub errors: BTreeMap<String, u64>,
}

/// Counts operations while it is open.
#[derive(Debug)]
pub(super) struct Meter {
    open: AtomicBool,
    over: AtomicBool,
    operations: AtomicU64,
    errors: AtomicU64,
    tally: Mutex<Tally>,
}

impl Tally {
    fn new(clients: usize) -> Self {
        Self {
            whole: histogram(),
            part: histogram(),
            grants: Vec::new(),
            shares: vec![0; clients],
            errors: BTreeMap::new(),
        }
    }
}

/// Exact to three digits. Resizes automatically.
#[allow(clippy::expect_used)]
fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("a histogram has 0 to 5 exact digits")
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Meter {
    pub(super) fn new(clients: usize) -> Self {
        Self {
            open: AtomicBool::new(false),
            over: AtomicBool::new(false),
            operations: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            tally: Mutex::new(Tally::new(clients)),
        }
    }

    /// Starts counting.
    pub(super) fn open(&self) {
        self.open.store(true, Relaxed);
    }

    /// Stops counting.
    pub(super) fn close(&self) {
        self.open.store(false, Relaxed);
    }

    /// Tells the clients to stop.
    pub(super) fn end(&self) {
        self.over.store(true, Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Operations and errors so far.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.operations.load(Relaxed), self.errors.load(Relaxed))
    }

    /// Counts an operation: its latency from its intended start, the latency of its acquire, and its grant of the
    /// contended lock, if it has them.
    pub(super) fn done(&self, client: usize, whole: Duration, part: Option<Duration>, grant: Option<Grant>) {
        if !self.open.load(Relaxed) {
            return;
        }
        self.operations.fetch_add(1, Relaxed);
        let mut tally = self.tally.lock();
        // Cannot fail: the histogram resizes.
        let _ = tally.whole.record(nanos(whole));
        if let Some(part) = part {
            let _ = tally.part.record(nanos(part));
        }
        tally.shares[client] += 1;
        tally.grants.extend(grant);
    }

    /// Counts a failure at any time: a run that fails during its warm-up has failed.
    pub(super) fn failed(&self, failure: Failure) {
        self.errors.fetch_add(1, Relaxed);
        let errors = &mut self.tally.lock().errors;
        let known = errors.len();
        match errors.get_mut(&failure.0) {
            Some(count) => *count += 1,
            None if known < ERRORS_MAX => _ = errors.insert(failure.0, 1),
            None => *errors.entry("others".to_owned()).or_default() += 1,
        }
    }

    /// Takes all counts.
    pub(super) fn take(&self) -> Tally {
        std::mem::replace(&mut *self.tally.lock(), Tally::new(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_count_while_it_is_open_and_errors_always() {
        let meter = Meter::new(2);
        let took = Duration::from_millis(2);
        meter.done(0, took, None, None);
        meter.failed(Failure("early".to_owned()));
        meter.open();
        meter.done(1, took, Some(took / 2), None);
        meter.close();
        meter.done(1, took, None, None);
        assert_eq!(meter.progress(), (1, 1));
        let tally = meter.take();
        assert_eq!((tally.whole.len(), tally.part.len(), tally.shares.as_slice()), (1, 1, [0, 1].as_slice()));
        assert!((1_998_000..2_002_000).contains(&tally.whole.max()), "{}", tally.whole.max());
        assert_eq!(tally.errors["early"], 1);
    }

    #[test]
    fn distinct_errors_are_bounded() {
        let meter = Meter::new(1);
        for number in 0..100 {
            meter.failed(Failure(format!("error {number}")));
        }
        let errors = meter.take().errors;
        assert_eq!((errors.len(), errors["others"]), (ERRORS_MAX + 1, 100 - ERRORS_MAX as u64));
    }
}
