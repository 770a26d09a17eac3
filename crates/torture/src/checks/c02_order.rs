//! C2: tokens rise in real-time order: a known grant has a lower token than every grant requested later. Under all
//! faults.
//!
//! A grant is known from the first answer that contains it, or from a loss that names it as the successor. A grant may
//! have been made as soon as its request was first sent, whichever transmission was answered.

use super::{findings::Findings, index::History};
use crate::verdict::Check;

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    for lock in &history.locks {
        let answered = lock.leases.iter().map(|lease| (lease.made_by(), lease.token));
        let reported = lock.losses.iter().filter_map(|lost| Some((lost.at, lost.successor?)));
        let mut known: Vec<_> = answered.chain(reported).collect();
        known.sort_unstable();
        let mut asked: Vec<_> = lock.leases.iter().map(|lease| (lease.asked_from(), lease)).collect();
        asked.sort_by_key(|(from, _)| *from);

        let mut known = known.into_iter().peekable();
        let mut highest = None;
        for (from, lease) in asked {
            while let Some((at, token)) = known.next_if(|(at, _)| *at < from) {
                if highest.is_none_or(|(most, _)| token > most) {
                    highest = Some((token, at));
                }
            }
            let Some((token, at)) = highest.filter(|(token, _)| lease.token <= *token) else { continue };
            let (known, asked, got) = (findings.at(at), findings.at(from), findings.at(lease.made_by()));
            let what = format!(
                "token {token} was known at {known}; then client {} asked at {asked} and got {} at {got}",
                lease.client, lease.token
            );
            findings.violation(Check::C2, lock.name, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        checks::builder::{HistoryBuilder, token},
        history::{AcquireEnd, Guarantees},
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
