//! C2: tokens rise in real-time order: a known grant has a lower token than every grant requested later. Under all
//! faults. An upgrade gives a lease a token as a grant does.
//!
//! A grant is known from the first answer that contains it, or from a loss that names it as the successor. A grant may
//! have been made as soon as its request was first sent, whichever transmission was answered.

use super::{findings::Findings, index::History, lease::Lease};
use crate::verdict::Check;

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    for lock in &history.locks {
        let answered = lock.leases.iter().map(|lease| (lease.made_by(), lease.token));
        let reported = lock.losses.iter().filter_map(|lost| Some((lost.at, lost.successor?)));
        let upgrades = || lock.leases.iter().flat_map(Lease::upgrades);
        let upgraded = upgrades().map(|upgrade| (upgrade.by, upgrade.token));
        let mut known: Vec<_> = answered.chain(reported).chain(upgraded).collect();
        known.sort_unstable();
        let asked = lock.leases.iter().map(|lease| (lease.asked_from(), lease.token, lease.client, lease.made_by()));
        let upgraded = upgrades().map(|upgrade| (upgrade.from, upgrade.token, upgrade.client, upgrade.by));
        let mut asked: Vec<_> = asked.chain(upgraded).collect();
        asked.sort_unstable();

        let mut known = known.into_iter().peekable();
        let mut highest = None;
        for (from, got, client, by) in asked {
            while let Some((at, token)) = known.next_if(|(at, _)| *at < from) {
                if highest.is_none_or(|(most, _)| token > most) {
                    highest = Some((token, at));
                }
            }
            let Some((token, at)) = highest.filter(|(token, _)| got <= *token) else { continue };
            let (known, asked, by) = (findings.at(at), findings.at(from), findings.at(by));
            let what = format!(
                "token {token} was known at {known}; then client {client} asked at {asked} and got {got} at {by}"
            );
            findings.violation(Check::C2, lock.name, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        checks::builder::{HistoryBuilder, token},
        history::{AcquireEnd, ConvertEnd, Guarantees},
        verdict::Check::C2,
    };

    #[test]
    fn a_lower_token_later() {
        let builder =
            HistoryBuilder::new().granted(1, "a", (0, 5), 2).released(1, 2, (10, 12)).granted(2, "b", (20, 25), 1);
        builder.violates(C2, "was known at 0.005000 s; then client 2 asked at 0.020000 s");
    }

    #[test]
    fn not_even_after_data_was_lost() {
        let builder =
            HistoryBuilder::new().granted(1, "a", (0, 5), 2).fault("wipe", "redis", (6, 8), Guarantees::NotMemory);
        builder.granted(2, "b", (20, 25), 1).violates(C2, "was known at");
    }

    #[test]
    fn an_equal_token_later() {
        let builder =
            HistoryBuilder::new().granted(1, "a", (0, 5), 2).released(1, 2, (10, 12)).granted(2, "b", (20, 25), 2);
        builder.grant(|grant| grant.grant = "other".into()).violates(C2, "was known at");
    }

    #[test]
    fn below_a_successor_reported_to_a_loser() {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).lost(1, 1, 1_900, "superseded", Some(5));
        builder.granted(2, "b", (2_000, 2_005), 3).violates(C2, "token 1795000000000005 was known at 1.900000 s");
    }

    /// Client 1 shares the lock with client 2, and upgrades to `to` when client 2 has released it.
    fn upgraded_to(to: u64) -> HistoryBuilder {
        let readers = HistoryBuilder::new().granted(1, "a", (0, 5), 1).shared().granted(2, "b", (10, 15), 2).shared();
        readers.released(2, 2, (20, 25)).upgraded(1, 1, (30, 35), to)
    }

    #[test]
    fn an_upgrade_draws_a_token() {
        upgraded_to(3).released(1, 3, (40, 45)).granted(2, "c", (50, 55), 4).released(2, 4, (60, 65)).passes();
        let late = upgraded_to(5).released(1, 5, (40, 45)).granted(2, "c", (50, 55), 4).released(2, 4, (60, 65));
        late.violates(C2, "token 1795000000000005 was known at 0.035000 s; then client 2 asked");
        let unanswered = upgraded_to(3).upgrade(1, 3, (36, 40), ConvertEnd::Unknown("reset".into()));
        unanswered.released(1, 3, (45, 48)).passes();
    }

    #[test]
    fn an_upgrade_gets_a_lower_token_than_another_reader() {
        let readers = HistoryBuilder::new().granted(1, "a", (0, 5), 1).shared().granted(2, "b", (10, 15), 3).shared();
        let upgraded = readers.released(2, 3, (20, 25)).upgraded(1, 1, (30, 35), 2).released(1, 2, (40, 45));
        upgraded.violates(C2, "token 1795000000000003 was known at 0.015000 s; then client 1 asked at 0.030000 s");
    }

    #[test]
    fn overlapping_requests_have_no_order() {
        // The request sent first was granted last.
        let builder =
            HistoryBuilder::new().granted(1, "a", (0, 50), 2).granted(2, "b", (1, 20), 1).released(2, 1, (22, 24));
        builder.released(1, 2, (60, 61)).passes();
    }

    #[test]
    fn a_grant_may_be_as_old_as_the_first_transmission_of_its_request() {
        let lost = AcquireEnd::Unknown("UNAVAILABLE".into());
        let builder = HistoryBuilder::new().ended(1, "a", (0, 100), lost).granted(2, "b", (10, 2_900), 2).released(
            2,
            2,
            (2_950, 2_960),
        );
        let builder = builder.granted(1, "a", (3_000, 3_005), 1).attempt(2).grant(|grant| grant.usable = false);
        builder.released(1, 1, (3_006, 3_007)).satisfies(C2);
        assert_eq!(token(1), 1_795_000_000_000_001);
    }
}
