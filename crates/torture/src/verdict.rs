//! The verdict of the checks on one history.

use crate::history::Nanos;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// The checks, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Check {
    /// The history is complete: missing records could hide any violation.
    C0,
    /// Tokens of a lock are unique.
    C1,
    /// Tokens rise in real-time order.
    C2,
    /// Leases that are valid by their holders' clocks do not overlap.
    C3,
    /// The fenced store accepts what it must accept and nothing else.
    C4,
    /// No waiter is lost.
    C5,
    /// First come, first served.
    C6,
    /// A request has one effect.
    C7,
    /// A holder learns in time that its lease is lost, and an ended lease stays ended.
    C8,
    /// The lock of a killed holder becomes free after its TTL.
    C9,
    /// Nothing is left behind, and nothing has crashed.
    C10,
    /// Tokens have 16 digits and fit in a double.
    C11,
    /// The nodes of a quorum agree: a batch has one content, and in the end all have the same batch.
    C12,
    /// A node that lost its memory is brought up to date.
    C13,
    /// No lease lasts longer than its `max_hold`.
    C14,
}

impl Check {
    /// All checks, in order.
    pub const ALL: [Self; 15] = [
        Self::C0,
        Self::C1,
        Self::C2,
        Self::C3,
        Self::C4,
        Self::C5,
        Self::C6,
        Self::C7,
        Self::C8,
        Self::C9,
        Self::C10,
        Self::C11,
        Self::C12,
        Self::C13,
        Self::C14,
    ];

    /// A short description.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::C0 => "history complete",
            Self::C1 => "tokens unique",
            Self::C2 => "tokens in real-time order",
            Self::C3 => "exclusion by lease",
            Self::C4 => "fenced store",
            Self::C5 => "no lost waiter",
            Self::C6 => "first come, first served",
            Self::C7 => "one effect per request",
            Self::C8 => "loss reported in time",
            Self::C9 => "recovery from dead holders",
            Self::C10 => "nothing left, nothing broken",
            Self::C11 => "tokens of 16 digits",
            Self::C12 => "nodes agree",
            Self::C13 => "nodes brought up to date",
            Self::C14 => "no longer than max_hold",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The check that found it.
    pub check: Check,
    /// The lock, if it concerns one.
    pub lock: Option<String>,
    /// What happened. Times are in seconds since the clients started.
    pub message: String,
    /// The fault that excuses it: its kind, or `force-release`. `None` if nothing does.
    pub excuse: Option<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.check)?;
        if let Some(lock) = &self.lock {
            write!(f, " {lock}")?;
        }
        write!(f, ": {}", self.message)?;
        self.excuse.as_ref().map_or(Ok(()), |kind| write!(f, " (excused by {kind})"))
    }
}

/// The verdict on one history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The seed of the run.
    pub seed: u64,
    /// The name of its topology.
    pub topology: String,
    /// From the start of the clients to their end.
    pub lasted: Nanos,
    /// The counts.
    pub counts: Counts,
    /// The violations. Empty is good.
    pub violations: Vec<Violation>,
    /// Events that a promise forbids, excused by a fault that the promise excludes.
    pub excused: Vec<Violation>,
}

impl Verdict {
    /// Whether there is no violation.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Counts of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Operations on locks: transmissions of Acquire and Release, renewals, force releases.
    pub operations: u64,
    /// Operations with an unknown outcome.
    pub unknown: u64,
    /// Distinct grants.
    pub grants: u64,
    /// Steps of the stores.
    pub steps: u64,
    /// Steps that the fenced store rejected.
    pub rejected: u64,
    /// Raises of readers among the steps.
    #[serde(default)]
    pub raises: u64,
    /// Checks of readers among the steps.
    #[serde(default)]
    pub checks: u64,
    /// Raises and checks that the fenced store rejected.
    #[serde(default)]
    pub readers_rejected: u64,
    /// Faults, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Grants that overtook an earlier request; only some of them are violations.
    pub inversions: u64,
    /// Writes to the fenced store, and how many of them it lost.
    pub fenced: Writes,
    /// Writes to the control, and how many of them it lost.
    pub control: Writes,
}

/// Writes to a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writes {
    /// Accepted writes.
    pub taken: u64,
    /// Writes that were overwritten unseen.
    pub lost: u64,
}

impl Writes {
    /// The percentage of lost writes.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a percentage for display")]
    pub fn lost_percent(self) -> f64 {
        if self.taken == 0 { 0.0 } else { self.lost as f64 * 100.0 / self.taken as f64 }
    }
}

impl std::ops::AddAssign for Writes {
    fn add_assign(&mut self, other: Self) {
        self.taken += other.taken;
        self.lost += other.lost;
    }
}
