//! C0: the history contains everything the checks need. Missing records could hide any violation.

use super::{findings::Findings, index::History};
use crate::verdict::Check;
use std::collections::HashSet;

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    if history.run.is_none() {
        findings.global_violation(Check::C0, "it does not have exactly one run record");
    }
    if history.leftovers.is_empty() {
        findings.global_violation(Check::C0, "the record of leftovers is missing");
    }
    for lock in &history.locks {
        if lock.finals.len() != 1 {
            findings.violation(Check::C0, lock.name, format!("{} final records", lock.finals.len()));
        }
        let spans = lock.acquires.iter().map(|one| ("Acquire", one.invoke, one.ret));
        let spans = spans.chain(lock.releases.iter().map(|one| ("Release", one.invoke, one.ret)));
        let spans = spans.chain(lock.conversions.iter().map(|one| ("Convert", one.invoke, one.ret)));
        let spans = spans.chain(lock.renewals.iter().map(|one| ("renewal", one.sent, one.at)));
        for (what, invoke, ret) in spans.chain(lock.revokes.iter().map(|one| ("force release", one.invoke, one.ret))) {
            if ret < invoke {
                let (invoke, ret) = (findings.at(invoke), findings.at(ret));
                findings.violation(Check::C0, lock.name, format!("a {what} sent at {invoke} returned at {ret}"));
            }
        }
        let mut seen = HashSet::new();
        for step in lock.steps.iter().filter(|step| !seen.insert(step.seq)) {
            findings.violation(Check::C0, lock.name, format!("two store steps have the number {}", step.seq));
        }
        let upgraded = lock.conversions.iter().filter_map(|convert| convert.new_token());
        // A repeat of a request tells the token that its lease has then.
        let answered = lock.leases.iter().flat_map(|lease| lease.answers.iter().map(|(_, grant)| grant.token));
        let known: HashSet<u64> = answered.chain(upgraded).collect();
        for lost in lock.losses.iter().filter(|lost| !known.contains(&lost.token)) {
            let at = findings.at(lost.at);
            findings.violation(
                Check::C0,
                lock.name,
                format!("token {} was lost at {at} and never granted", lost.token),
            );
        }
    }
}
