//! C1: each token belongs to one grant, each grant has one token and belongs to one request. Under all faults.

use super::{
    findings::Findings,
    index::{History, Lock},
};
use crate::{
    history::{Acquire, AcquireEnd, Grant},
    verdict::Check,
};
use std::collections::HashMap;

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    for lock in &history.locks {
        let (mut tokens, mut grants) = (HashMap::new(), HashMap::new());
        for (acquire, grant) in granted(lock) {
            let (first, had) = *tokens.entry(grant.token).or_insert((acquire, grant));
            if had.grant != grant.grant {
                let (first, then) = (findings.at(first.ret), findings.at(acquire.ret));
                let what = format!(
                    "token {} was given twice: with grant {} at {first}, with grant {} at {then}",
                    grant.token, had.grant, grant.grant
                );
                findings.violation(Check::C1, lock.name, what);
            }
            let (first, had) = *grants.entry(grant.grant.as_str()).or_insert((acquire, grant));
            let (before, then) = (findings.at(first.ret), findings.at(acquire.ret));
            if had.token != grant.token {
                let what = format!(
                    "grant {} has two tokens: {} at {before}, {} at {then}",
                    grant.grant, had.token, grant.token
                );
                findings.violation(Check::C1, lock.name, what);
            }
            if first.request != acquire.request {
                let what = format!(
                    "grant {} answered two requests: {} at {before}, {} at {then}",
                    grant.grant, first.request, acquire.request
                );
                findings.violation(Check::C1, lock.name, what);
            }
        }
    }
}

fn granted<'a>(lock: &Lock<'a>) -> impl Iterator<Item = (&'a Acquire, &'a Grant)> {
    lock.acquires.iter().filter_map(|acquire| match &acquire.end {
        AcquireEnd::Acquired(grant) => Some((*acquire, grant)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use crate::{checks::builder::HistoryBuilder, verdict::Check::C1};

    #[test]
    fn one_token_for_two_grants() {
        let builder =
            HistoryBuilder::new().granted(1, "a", (0, 5), 1).released(1, 1, (10, 12)).granted(2, "b", (20, 25), 1);
        builder.grant(|grant| grant.grant = "other".into()).violates(C1, "token 1795000000000001 was given twice");
    }

    #[test]
    fn one_grant_with_two_tokens() {
        let builder =
            HistoryBuilder::new().granted(1, "a", (0, 5), 1).released(1, 1, (10, 12)).granted(2, "b", (20, 25), 2);
        builder.grant(|grant| grant.grant = "g1".into()).violates(C1, "grant g1 has two tokens");
    }

    #[test]
    fn one_grant_for_two_requests() {
        let builder =
            HistoryBuilder::new().granted(1, "a", (0, 5), 1).granted(2, "b", (1, 25), 1).released(1, 1, (30, 32));
        builder.violates(C1, "grant g1 answered two requests: a at 0.005000 s, b at 0.025000 s");
    }

    #[test]
    fn a_grant_answered_twice_is_one() {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).granted(1, "a", (6, 9), 1).attempt(2).released(
            1,
            1,
            (10, 12),
        );
        builder.passes();
    }

    #[test]
    fn locks_do_not_share_tokens() {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).released(1, 1, (10, 12));
        builder.on("other").granted(2, "b", (20, 25), 1).released(2, 1, (30, 31)).passes();
    }
}
