//! The checks of a history: the promises of docs/architecture.md against what really happened.
//!
//! They sort and sweep; tokens give the order, so no search is needed. Where an outcome is unknown, a check assumes
//! what favours the server: an Acquire without an answer may have been granted at any time after it was sent, a Release
//! may have been applied at any time after it was sent, or never, and a lease may have either mode after a Convert. So
//! a reported violation did happen; an unreported one may have.

#[cfg(test)]
mod builder;
mod c00_complete;
mod c01_unique;
mod c02_order;
mod c03_exclusion;
mod c04_store;
mod c05_waiters;
mod c06_order;
mod c07_one_effect;
mod c08_loss;
mod c09_recovery;
mod c10_nothing_left;
mod c11_digits;
mod c12_agreement;
mod c13_admission;
mod c14_max_hold;
mod fault_windows;
mod findings;
mod free;
mod index;
mod lease;
mod marks;
mod places;
#[cfg(test)]
mod props;
#[cfg(test)]
mod sim;
mod tokens;

use crate::{
    history::{AcquireEnd, ConvertEnd, Record, ReleaseEnd},
    steps::StepKind,
    verdict::{Counts, Verdict, Writes},
};
use findings::Findings;
use index::History;

/// Runs all checks.
#[must_use]
pub fn check(records: &[Record]) -> Verdict {
    let history = History::of(records);
    let mut findings = Findings::new(history.begin);
    c00_complete::check(&history, &mut findings);
    c01_unique::check(&history, &mut findings);
    c02_order::check(&history, &mut findings);
    c03_exclusion::check(&history, &mut findings);
    c04_store::check(&history, &mut findings);
    c05_waiters::check(&history, &mut findings);
    let inversions = c06_order::check(&history, &mut findings);
    c07_one_effect::check(&history, &mut findings);
    c08_loss::check(&history, &mut findings);
    c09_recovery::check(&history, &mut findings);
    c10_nothing_left::check(&history, &mut findings);
    c11_digits::check(&history, &mut findings);
    c12_agreement::check(&history, &mut findings);
    c13_admission::check(&history, &mut findings);
    c14_max_hold::check(&history, &mut findings);
    let counts = Counts { inversions, ..counts(&history, records) };
    Verdict {
        seed: history.run.map_or(0, |run| run.seed),
        topology: history.run.map_or_else(String::new, |run| run.topology.clone()),
        lasted: history.run.map_or(0, |run| run.end.saturating_sub(run.begin)),
        counts,
        violations: findings.violations,
        excused: findings.excused,
    }
}

fn counts(history: &History<'_>, records: &[Record]) -> Counts {
    let mut counts =
        Counts { grants: history.locks.iter().map(|lock| lock.leases.len() as u64).sum(), ..Counts::default() };
    for record in records {
        match record {
            Record::Acquire(acquire) => {
                counts.operations += 1;
                counts.unknown += u64::from(matches!(acquire.end, AcquireEnd::Unknown(_) | AcquireEnd::Dropped));
            }
            Record::Release(release) => {
                counts.operations += 1;
                counts.unknown += u64::from(matches!(release.end, ReleaseEnd::Unknown(_)));
            }
            Record::Convert(convert) => {
                counts.operations += 1;
                counts.unknown += u64::from(matches!(convert.end, ConvertEnd::Unknown(_)));
            }
            Record::Revoked(revoked) => {
                counts.operations += 1;
                counts.unknown += u64::from(!revoked.certain);
            }
            Record::Renewed(_) => counts.operations += 1,
            Record::Store(step) => {
                counts.steps += 1;
                counts.rejected += u64::from(!step.accepted);
                counts.raises += u64::from(step.kind == StepKind::Raise);
                counts.checks += u64::from(step.kind == StepKind::Check);
                counts.readers_rejected += u64::from(step.kind.is_of_reader() && !step.accepted);
            }
            Record::Fault(fault) => *counts.faults.entry(fault.kind.clone()).or_default() += 1,
            Record::Final(end) => {
                counts.fenced += writes(end.writes_accepted, end.fenced);
                counts.control += writes(end.writes_all, end.control);
            }
            Record::Run(_) | Record::Lost(_) | Record::Kept(_) | Record::Voting(_) | Record::Leftovers(_) => {}
        }
    }
    counts
}

fn writes(taken: u64, left: u64) -> Writes {
    Writes { taken, lost: taken.saturating_sub(left) }
}
