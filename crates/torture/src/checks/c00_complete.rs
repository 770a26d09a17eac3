//! C0: the history says what the checks need to know. What is missing from it could hide anything.

use super::{findings::Findings, index::History};
use crate::verdict::Check;
use std::collections::HashSet;

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    if history.run.is_none() {
        findings.wrong_at_large(Check::C0, "it does not begin with one run");
    }
    if history.rests.is_empty() {
        findings.wrong_at_large(Check::C0, "nobody looked at what was left after the run");
    }
    for lock in &history.locks {
        if lock.finals.len() != 1 {
            findings.wrong(Check::C0, lock.name, format!("{} ends were written down", lock.finals.len()));
        }
        let spans = lock.acquires.iter().map(|one| ("Acquire", one.invoke, one.ret));
        let spans = spans.chain(lock.releases.iter().map(|one| ("Release", one.invoke, one.ret)));
        let spans = spans.chain(lock.renewals.iter().map(|one| ("renewal", one.sent, one.at)));
        for (what, invoke, ret) in spans.chain(lock.revokes.iter().map(|one| ("force release", one.invoke, one.ret))) {
            if ret < invoke {
                let (invoke, ret) = (findings.at(invoke), findings.at(ret));
                findings.wrong(Check::C0, lock.name, format!("a {what} sent at {invoke} returned at {ret}"));
            }
        }
        let mut seen = HashSet::new();
        for step in lock.steps.iter().filter(|step| !seen.insert(step.seq)) {
            findings.wrong(Check::C0, lock.name, format!("two steps of the stores have the number {}", step.seq));
        }
        let known: HashSet<u64> = lock.leases.iter().map(|lease| lease.token).collect();
        for lost in lock.losts.iter().filter(|lost| !known.contains(&lost.token)) {
            let at = findings.at(lost.at);
            findings.wrong(Check::C0, lock.name, format!("token {} was lost at {at} and never granted", lost.token));
        }
    }
}
