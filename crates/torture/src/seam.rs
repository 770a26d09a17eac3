//! The seam between a history and its checks: the one place that knows how they are called.

use fencepost_torture::{
    checks,
    history::{AcquireEnd, Record},
    report,
    verdict::Verdict,
};

pub(crate) fn judge(history: &[Record]) -> Verdict {
    checks::check(history)
}

pub(crate) fn page(verdict: &Verdict) -> String {
    report::of_one(verdict)
}

/// How many calls were granted.
pub(crate) fn grants(history: &[Record]) -> u64 {
    let granted =
        |record: &&Record| matches!(record, Record::Acquire(one) if matches!(one.end, AcquireEnd::Acquired(_)));
    history.iter().filter(granted).map(|_| 1).sum()
}
