//! C11: every token has 16 digits, so that text sorts like numbers, and is below 2^53, so that a double represents it.
//! Under all faults.

use super::{findings::Findings, index::History};
use crate::{history::AcquireEnd, verdict::Check};
use std::collections::HashSet;

/// The lowest number of 16 digits.
const LEAST: u64 = 1_000_000_000_000_000;

/// The lowest number that a double may not represent.
const TOO_HIGH: u64 = 1 << 53;

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    for lock in &history.locks {
        let granted = lock.acquires.iter().filter_map(|acquire| match &acquire.end {
            AcquireEnd::Acquired(grant) => Some((grant.token, acquire.ret)),
            _ => None,
        });
        let reported = lock.losses.iter().filter_map(|lost| Some((lost.successor?, lost.at)));
        let upgraded = lock.conversions.iter().filter_map(|convert| Some((convert.new_token()?, convert.ret)));
        let mut seen = HashSet::new();
        for (token, at) in granted.chain(reported).chain(upgraded) {
            if !(LEAST..TOO_HIGH).contains(&token) && seen.insert(token) {
                let at = findings.at(at);
                findings.violation(Check::C11, lock.name, format!("token {token}, seen at {at}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LEAST, TOO_HIGH};
    use crate::{checks::builder::HistoryBuilder, verdict::Check::C11};

    fn with(token: u64) -> HistoryBuilder {
        HistoryBuilder::new().granted(1, "a", (0, 5), 1).grant(|grant| grant.token = token)
    }

    #[test]
    fn both_ends() {
        with(LEAST).satisfies(C11);
        with(TOO_HIGH - 1).satisfies(C11);
        with(LEAST - 1).violates(C11, "token 999999999999999, seen at 0.005000 s");
        with(TOO_HIGH).violates(C11, "token 9007199254740992");
    }

    #[test]
    fn a_successor_counts_too() {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).lost(1, 1, 1_880, "superseded", Some(TOO_HIGH));
        builder.violates(C11, "seen at 1.880000 s");
    }
}
