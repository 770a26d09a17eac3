//! What in a Redis endangers locks: gathered with a few commands that change nothing, judged by pure rules.
//!
//! `fencepost doctor` shows all findings; a server looks at each life of Redis that it meets, and logs what is not
//! well.

mod basics;
mod durability;
mod facts;
mod gather;
#[cfg(test)]
mod tests;

pub use facts::{ClockSample, Facts, Meta};
pub(super) use gather::{gather, gather_again};

use crate::node::{self, RedisUrl};
use serde::Serialize;

/// The name of the finding about eviction, which a server does not serve in spite of unless it is told to.
pub const EVICTION: &str = "eviction";

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing to change.
    Ok,
    /// Locks work, and there is something that they will not survive, or that could not be checked.
    Warning,
    /// Locks do not work, or may pass to a second holder while nothing has failed.
    Error,
}

/// What was found about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at: the same word in every version.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is so.
    pub found: String,
    /// What it can cost; empty if nothing.
    pub at_stake: String,
    /// What to do about it; empty if nothing.
    pub change: String,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, severity: Severity::Ok, found: found.into(), at_stake: String::new(), change: String::new() }
    }

    fn warning(
        check: &'static str,
        found: impl Into<String>,
        at_stake: impl Into<String>,
        change: impl Into<String>,
    ) -> Self {
        let (found, at_stake, change) = (found.into(), at_stake.into(), change.into());
        Self { check, severity: Severity::Warning, found, at_stake, change }
    }

    fn error(
        check: &'static str,
        found: impl Into<String>,
        at_stake: impl Into<String>,
        change: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Error, ..Self::warning(check, found, at_stake, change) }
    }
}

/// All findings, in the order in which people read them.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = basics::judge(facts);
    findings.extend(durability::judge(facts));
    findings
}

/// The worst of them.
pub fn worst(findings: &[Finding]) -> Severity {
    findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok)
}

/// Looks at a Redis over a connection of its own. An error says why it cannot be reached and what to do.
pub async fn examine(url: &RedisUrl) -> Result<Vec<Finding>, String> {
    let mut connection = node::connect(url).await?;
    Ok(judge(&gather(&mut connection).await?))
}
