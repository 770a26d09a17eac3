//! The seam between a history and its checks: the one place that knows how they are called.

use fencepost_torture::history::{AcquireEnd, Record};
use std::collections::BTreeMap;

/// What is said of a history.
pub(crate) struct Verdict {
    pub(crate) holds: bool,
    pub(crate) page: String,
}

pub(crate) fn judge(history: &[Record]) -> Verdict {
    let Figures { operations, grants, faults } = figures(history);
    let total: u64 = faults.values().sum();
    let mut page = format!("{operations} operations, {grants} grants, {total} faults\n");
    for (kind, count) in faults {
        page.push_str(&format!("  {count:5} {kind}\n"));
    }
    Verdict { holds: true, page }
}

/// What a history counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Transmissions of Acquire and Release, and renewals.
    pub(crate) operations: u64,
    pub(crate) grants: u64,
    pub(crate) faults: BTreeMap<String, u64>,
}

pub(crate) fn figures(history: &[Record]) -> Figures {
    let mut figures = Figures::default();
    for record in history {
        match record {
            Record::Acquire(acquire) => {
                figures.operations += 1;
                figures.grants += u64::from(matches!(acquire.end, AcquireEnd::Acquired(_)));
            }
            Record::Release(_) | Record::Renewed(_) => figures.operations += 1,
            Record::Fault(fault) => *figures.faults.entry(fault.kind.clone()).or_default() += 1,
            _ => {}
        }
    }
    figures
}
