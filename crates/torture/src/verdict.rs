//! What the checks say of one history.

use crate::history::Nanos;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// Which check. The order is that of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Check {
    /// The history itself: what is missing from it could hide anything.
    C0,
    /// Tokens of a lock are unique.
    C1,
    /// Tokens rise in real-time order.
    C2,
    /// Leases that are valid by their holders' own reckoning do not overlap.
    C3,
    /// The fenced store takes what it must take and nothing else.
    C4,
    /// No waiter is lost.
    C5,
    /// First come, first served.
    C6,
    /// A request has one effect.
    C7,
    /// A holder learns in time that its lease is over, and an ended lease stays ended.
    C8,
    /// A dead holder's lock is free after its TTL.
    C9,
    /// Nothing is left behind, and nothing broke.
    C10,
    /// Tokens have 16 digits and fit in a double.
    C11,
}

impl Check {
    /// All of them, in order.
    pub const ALL: [Self; 12] = [
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
    ];

    /// What it looks for, in a few words.
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
            Self::C7 => "one effect a request",
            Self::C8 => "loss told in time",
            Self::C9 => "recovery from dead holders",
            Self::C10 => "nothing left, nothing broken",
            Self::C11 => "tokens of 16 digits",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// Something that a promise forbids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Which check found it.
    pub check: Check,
    /// On which lock, if on one.
    pub lock: Option<String>,
    /// What happened; times in it are seconds since the clients began.
    pub message: String,
    /// What takes it out of the promise: the kind of a fault, or `force-release`. None for what nothing excuses.
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

/// What one history came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The seed of the run.
    pub seed: u64,
    /// The name of its topology.
    pub topology: String,
    /// From the clients' begin to their end.
    pub lasted: Nanos,
    /// What was counted.
    pub counts: Counts,
    /// What is wrong. Empty is good.
    pub violations: Vec<Violation>,
    /// What happened although it is not to, and no promise was broken by it, because of a fault that is outside of
    /// them.
    pub excused: Vec<Violation>,
}

impl Verdict {
    /// Is nothing wrong?
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }
}

/// How much was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Operations on locks: transmissions of Acquire and Release, renewals, force releases.
    pub operations: u64,
    /// Of these, the ones whose outcome nobody knows.
    pub unknown: u64,
    /// Different grants.
    pub grants: u64,
    /// Steps on the stores.
    pub steps: u64,
    /// Steps that the fenced store rejected: each would have done harm.
    pub rejected: u64,
    /// Faults, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Grants that overtook a request that had come before; only some of them break a promise.
    pub inversions: u64,
    /// Writes that the fenced store took, and how many of them it lost.
    pub fenced: Writes,
    /// Writes that the control took, and how many of them it lost.
    pub control: Writes,
}

/// Writes to a store, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writes {
    /// All that it took.
    pub taken: u64,
    /// Those of which nothing is left.
    pub lost: u64,
}

impl Writes {
    /// How many of a hundred were lost.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
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
