//! Checks whether a Redis is fit to keep data that must not be lost: a few commands that change nothing gather the
//! facts, pure rules judge them.
//!
//! The findings say what is at stake in the terms of Fencepost's users. What only a store can check (its channels, the
//! layout of its data) it gathers over the same [`Probe`] and passes on as findings of its own.

mod basics;
pub mod cluster;
mod durability;
mod facts;
mod logged;
mod probe;
pub mod sentinels;
mod service;
#[cfg(test)]
mod tests;

pub use facts::Facts;
pub use logged::Logged;
pub use probe::Probe;

use serde::Serialize;

/// The name of the eviction check, for callers that treat its finding apart.
pub const EVICTION: &str = "eviction";

/// The name of the role check, likewise.
pub const ROLE: &str = "role";

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing to change.
    Ok,
    /// Redis works, but data will not survive some failure, or something could not be checked.
    Warning,
    /// Redis cannot be used, or may lose data while nothing has failed.
    Error,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check, the same in every version.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The state that was found.
    pub found: String,
    /// The damage that this can do; empty if none.
    pub at_stake: String,
    /// The remedy; empty if none is needed.
    pub change: String,
}

impl Finding {
    /// Nothing is wrong.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, severity: Severity::Ok, found: found.into(), at_stake: String::new(), change: String::new() }
    }

    /// [`Severity::Warning`].
    pub fn warning(
        check: &'static str,
        found: impl Into<String>,
        at_stake: impl Into<String>,
        change: impl Into<String>,
    ) -> Self {
        let (found, at_stake, change) = (found.into(), at_stake.into(), change.into());
        Self { check, severity: Severity::Warning, found, at_stake, change }
    }

    /// [`Severity::Error`].
    pub fn error(
        check: &'static str,
        found: impl Into<String>,
        at_stake: impl Into<String>,
        change: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Error, ..Self::warning(check, found, at_stake, change) }
    }
}

/// All findings about one of several Redis of which a majority has everything, in reading order: whether it can be used
/// at all, the caller's own checks, and what a failure would lose. Its disk decides nothing.
pub fn judge_one_of_several(facts: &Facts, own: impl IntoIterator<Item = Finding>) -> Vec<Finding> {
    judge(facts, own, durability::judge_one_of_several(facts))
}

/// The same for the only one: what it forgets, only servers have that live.
pub fn judge_only_one(facts: &Facts, own: impl IntoIterator<Item = Finding>) -> Vec<Finding> {
    judge(facts, own, durability::judge(facts))
}

fn judge(facts: &Facts, own: impl IntoIterator<Item = Finding>, durability: Vec<Finding>) -> Vec<Finding> {
    let mut findings = basics::judge(facts);
    findings.extend(own);
    findings.extend(basics::clock(facts));
    findings.extend(durability);
    findings
}

/// The severity of the worst finding.
pub fn worst(findings: &[Finding]) -> Severity {
    findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok)
}
