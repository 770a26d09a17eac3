//! What a rule may permit.

use serde::Deserialize;

/// What a rule may permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Acquires, renews, attaches and releases leases.
    Acquire,
    /// Gets, lists and watches locks.
    Read,
    /// Checks tokens, and sees nothing else of a lock: for stores.
    Check,
    /// Revokes leases.
    Force,
    /// Drains servers. Concerns no lock.
    Operate,
}

impl Verb {
    /// All verbs, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Acquire, Self::Read, Self::Check, Self::Force, Self::Operate];

    /// The verb as a rule names it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Read => "read",
            Self::Check => "check",
            Self::Force => "force",
            Self::Operate => "operate",
        }
    }

    /// The verb of this name.
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.text() == text)
    }

    /// Whether it concerns locks, so that a rule has to name some.
    pub(super) fn concerns_locks(self) -> bool {
        self != Self::Operate
    }
}
