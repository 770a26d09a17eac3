//! C1: each token belongs to one grant, each grant has one token until it is upgraded, and belongs to one request.
//! Under all faults.

use super::{
    findings::Findings,
    index::{History, Lock},
    lease::Lease,
    tokens::Tokens,
};
use crate::{
    history::{Acquire, AcquireEnd, Grant},
    verdict::Check,
};
use std::collections::HashMap;

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    for lock in &history.locks {
        let (mut tokens, mut grants) = (HashMap::new(), HashMap::new());
        let of_lease = Tokens::of(lock);
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
            if of_lease.of_grant(had) != of_lease.of_grant(grant) {
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
        for upgrade in lock.leases.iter().flat_map(Lease::upgrades) {
            let first = of_lease.first(upgrade.token);
            let twice = lock.leases.iter().find(|lease| lease.token == upgrade.token && lease.token != first);
            if let Some(other) = twice {
                let (before, then) = (findings.at(other.made_by()), findings.at(upgrade.by));
                let what = format!(
                    "token {} was given twice: with grant {} at {before}, to an upgrade of {first} at {then}",
                    upgrade.token, other.grant
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
    use crate::{
        checks::builder::HistoryBuilder,
        history::ConvertEnd,
        verdict::Check::{C0, C1},
    };

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

    /// Client 1 has a shared lease. The repeat of its request is answered after its upgrade.
    fn upgraded() -> HistoryBuilder {
        HistoryBuilder::new().granted(1, "a", (0, 5), 1).shared().upgraded(1, 1, (10, 15), 2)
    }

    #[test]
    fn an_upgraded_grant_has_two_tokens() {
        let repeated = |builder: HistoryBuilder| {
            let again = builder.granted(1, "a", (20, 25), 2).shared().attempt(2);
            again.grant(|grant| grant.grant = "g1".into()).released(1, 2, (30, 35))
        };
        repeated(upgraded()).passes();
        let shared = || HistoryBuilder::new().granted(1, "a", (0, 5), 1).shared();
        let unanswered = shared().upgrade(1, 1, (10, 15), ConvertEnd::Unknown("reset".into()));
        repeated(unanswered.clone()).satisfies(C1);
        // Nothing else tells the token that it has then.
        repeated(unanswered).lost(1, 2, 1_900, "deadline", None).satisfies(C0);
        repeated(shared().upgrade(1, 1, (10, 15), ConvertEnd::Contended)).violates(C1, "grant g1 has two tokens");
    }

    #[test]
    fn an_upgrade_with_the_token_of_a_grant() {
        let builder = upgraded().released(1, 2, (20, 25)).granted(2, "b", (30, 35), 2).released(2, 2, (40, 45));
        builder.violates(C1, "token 1795000000000002 was given twice: with grant g2 at 0.035000 s, to an upgrade of");
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
