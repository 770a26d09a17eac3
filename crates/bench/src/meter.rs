//! What the clients of one run have done, while it is being measured.

use super::caller::Fault;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use tokio::time::Instant;

/// Different errors that are told apart; there are few, unless they hold numbers.
const ERRORS_MAX: usize = 16;

/// One grant of the one lock that all want.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    /// Grants happened in the order of this.
    pub order: u64,
    /// To whom it was.
    pub client: usize,
    /// When the call was sent.
    pub sent: Instant,
    /// When it had arrived, at the latest.
    pub arrived: Instant,
}

/// What was counted. All clients share one: they run on one thread unless asked otherwise, and a histogram for each of
/// them would only push more out of the caches that server and Redis need as well.
#[derive(Debug)]
pub(super) struct Tally {
    /// How long operations took, in nanoseconds.
    pub whole: Histogram<u64>,
    /// How long the acquire in them took.
    pub part: Histogram<u64>,
    pub grants: Vec<Grant>,
    /// Operations of each client.
    pub shares: Vec<u64>,
    pub errors: BTreeMap<String, u64>,
}

/// Counts what is done while it is open; what is done before and after does not count.
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

/// Three digits are exact. It grows with what it is given.
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

    /// From here on it counts.
    pub(super) fn open(&self) {
        self.open.store(true, Relaxed);
    }

    /// From here on it counts no more.
    pub(super) fn close(&self) {
        self.open.store(false, Relaxed);
    }

    /// The clients are to come to an end.
    pub(super) fn end(&self) {
        self.over.store(true, Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// So far, for the progress.
    pub(super) fn so_far(&self) -> (u64, u64) {
        (self.operations.load(Relaxed), self.errors.load(Relaxed))
    }

    /// An operation is done: it took so long from when it was to begin, the acquire in it so long, and if it was a
    /// grant of the one lock then that one.
    pub(super) fn done(&self, client: usize, whole: Duration, part: Option<Duration>, grant: Option<Grant>) {
        if !self.open.load(Relaxed) {
            return;
        }
        self.operations.fetch_add(1, Relaxed);
        let mut tally = self.tally.lock();
        // It grows as needed; so nothing is out of range.
        let _ = tally.whole.record(nanos(whole));
        if let Some(part) = part {
            let _ = tally.part.record(nanos(part));
        }
        tally.shares[client] += 1;
        tally.grants.extend(grant);
    }

    /// Something went wrong. That counts at any time: a run that failed while it warmed up has failed.
    pub(super) fn failed(&self, fault: Fault) {
        self.errors.fetch_add(1, Relaxed);
        let errors = &mut self.tally.lock().errors;
        let known = errors.len();
        match errors.get_mut(&fault.0) {
            Some(count) => *count += 1,
            None if known < ERRORS_MAX => _ = errors.insert(fault.0, 1),
            None => *errors.entry("others".to_owned()).or_default() += 1,
        }
    }

    /// Everything that was counted.
    pub(super) fn take(&self) -> Tally {
        std::mem::replace(&mut *self.tally.lock(), Tally::new(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_done_while_it_is_open_counts_but_every_error_does() {
        let meter = Meter::new(2);
        let took = Duration::from_millis(2);
        meter.done(0, took, None, None);
        meter.failed(Fault("early".to_owned()));
        meter.open();
        meter.done(1, took, Some(took / 2), None);
        meter.close();
        meter.done(1, took, None, None);
        assert_eq!(meter.so_far(), (1, 1));
        let tally = meter.take();
        assert_eq!((tally.whole.len(), tally.part.len(), tally.shares.as_slice()), (1, 1, [0, 1].as_slice()));
        assert!((1_998_000..2_002_000).contains(&tally.whole.max()), "{}", tally.whole.max());
        assert_eq!(tally.errors["early"], 1);
    }

    #[test]
    fn errors_without_end_are_not_all_kept() {
        let meter = Meter::new(1);
        for number in 0..100 {
            meter.failed(Fault(format!("error {number}")));
        }
        let errors = meter.take().errors;
        assert_eq!((errors.len(), errors["others"]), (ERRORS_MAX + 1, 100 - ERRORS_MAX as u64));
    }
}
