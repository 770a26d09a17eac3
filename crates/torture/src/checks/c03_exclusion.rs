//! C3: no two leases are valid at once by their holders' clocks, unless both are shared, or are of a semaphore. Those
//! of a semaphore have no more permits together than its limit, and no slot twice.
//!
//! A lease that is converted is exclusive until its downgrade was sent, and from when its upgrade was answered. After a
//! conversion with an unknown outcome it may be either, so it excludes no reader.
//!
//! What a lease has, it occupies until its `min_hold` is over, however it ends ([`super::places`]).
//!
//! A holder may work from the answer with its grant until its validity, as extended by renewals, ends, or it sends a
//! Release, or it learns of the loss. A grant that arrived too late to be used does not count. Overlaps that a fault
//! without a guarantee of exclusion may have caused, or that follow a force release of one of the two leases, are
//! counted separately.

use super::{
    findings::Findings,
    index::{History, Lock},
    lease::{Lease, Span},
    places,
};
use crate::{
    history::{Nanos, PERMIT_LIMIT},
    verdict::Check,
};

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    for lock in &history.locks {
        check_lock(history, lock, findings);
    }
}

fn check_lock(history: &History<'_>, lock: &Lock<'_>, findings: &mut Findings) {
    let mut spans: Vec<(Span, usize)> = Vec::new();
    for (which, lease) in lock.leases.iter().enumerate() {
        spans.extend(lease.spans().into_iter().map(|span| (span, which)));
    }
    spans.sort_unstable();
    check_permits(history, lock, &spans, findings);
    places::check_lock(history, lock, findings);
    // Of all leases, and of those that exclude a shared one.
    let mut longest: Option<(Nanos, Nanos, usize)> = None;
    let mut longest_exclusive = None;
    for (Span { from, until, is_beside }, which) in spans {
        let before = if is_beside { longest_exclusive } else { longest };
        if let Some((had_from, had_until, holder)) = before.filter(|(_, end, holder)| from < *end && which != *holder) {
            let (had, new) = (&lock.leases[holder], &lock.leases[which]);
            let both_until = had_until.min(until);
            let excuse = if is_revoked(had, from) || is_revoked(new, from) {
                Some("force-release".to_owned())
            } else {
                history.excuse(from, both_until)
            };
            let what = format!(
                "client {} holds {} from {} to {}, client {} holds {} from {} to {}",
                had.client,
                had.token,
                findings.at(had_from),
                findings.at(had_until),
                new.client,
                new.token,
                findings.at(from),
                findings.at(until),
            );
            findings.excusable(Check::C3, lock.name, what, excuse);
        }
        if longest.is_none_or(|(_, end, _)| until > end) {
            longest = Some((from, until, which));
        }
        if !is_beside && longest_exclusive.is_none_or(|(_, end, _)| until > end) {
            longest_exclusive = Some((from, until, which));
        }
    }
}

/// The leases of a semaphore, at each moment at which one of them begins.
fn check_permits(history: &History<'_>, lock: &Lock<'_>, spans: &[(Span, usize)], findings: &mut Findings) {
    // Those that last at the moment.
    let mut held: Vec<(Nanos, usize)> = Vec::new();
    let of_semaphore = spans.iter().copied().filter(|(_, which)| lock.leases[*which].permits() > 0);
    for (Span { from, until, .. }, which) in of_semaphore {
        held.retain(|(end, other)| from < *end && *other != which);
        let new = &lock.leases[which];
        let of_slot = |(_, other): &&(Nanos, usize)| {
            new.slots().any(|slot| slot != 0 && lock.leases[*other].slots().any(|taken| taken == slot))
        };
        let twice = held.iter().find(of_slot).map(|(end, other)| (*end, *other, "has the same slot"));
        held.push((until, which));
        let used: u32 = held.iter().map(|(_, which)| lock.leases[*which].permits()).sum();
        let above = (used > PERMIT_LIMIT).then_some(());
        let above =
            above.and_then(|()| held.iter().min()).map(|(end, other)| (*end, *other, "is above the limit with it"));
        let Some((until, other, how)) = twice.or(above) else { continue };
        let is_excused = held.iter().any(|(_, which)| is_revoked(&lock.leases[*which], from));
        let excuse = if is_excused { Some("force-release".to_owned()) } else { history.excuse(from, until) };
        let had = &lock.leases[other];
        let what = format!(
            "client {} holds {} until {}, and client {}, who {how}, holds {} from {}; {used} permits are used",
            had.client,
            had.token,
            findings.at(until),
            new.client,
            new.token,
            findings.at(from)
        );
        findings.excusable(Check::C3, lock.name, what, excuse);
    }
}

/// Whether an operator may have revoked the lease by `time`.
pub(super) fn is_revoked(lease: &Lease<'_>, time: Nanos) -> bool {
    lease.revokes.iter().any(|revoked| revoked.invoke <= time)
}

#[cfg(test)]
mod tests {
    use crate::{
        checks::builder::HistoryBuilder,
        history::{ConvertEnd, Guarantees},
        verdict::Check::C3,
    };

    /// Client 1 believes in its lease until 1.885 s; client 2 gets one at 1 s.
    fn overlap() -> HistoryBuilder {
        HistoryBuilder::new().granted(1, "a", (0, 5), 1).granted(2, "b", (990, 1_000), 2).released(2, 2, (1_500, 1_510))
    }

    /// The holders of so many permits and these slots, all at one time.
    fn permits<const N: usize>(holders: [(u32, u32); N]) -> HistoryBuilder {
        let granted = |builder: HistoryBuilder, (n, (permits, slot)): (u32, (u32, u32))| {
            let request = format!("request-{n}");
            let from = 10 * u64::from(n);
            builder.granted(n, &request, (from, from + 5), n.into()).permits(permits, slot)
        };
        let builder = (1..).zip(holders).fold(HistoryBuilder::new(), granted);
        (1..).take(N).fold(builder, |builder, n| builder.released(n, n.into(), (500, 505)))
    }

    #[test]
    fn holders_of_permits_stay_within_the_limit() {
        permits([(1, 1), (1, 2), (1, 3)]).satisfies(C3);
        permits([(2, 0), (1, 1)]).satisfies(C3);
        permits([(2, 0), (1, 1), (1, 2)])
            .violates(C3, "client 1 holds 1795000000000001 until 0.500000 s, and client 3, who is above the limit");
        permits([(3, 0), (3, 0)]).violates(C3, "6 permits are used");
    }

    #[test]
    fn a_slot_has_one_holder() {
        permits([(1, 1), (1, 1)]).violates(C3, "client 2, who has the same slot");
    }

    #[test]
    fn nobody_holds_alone_beside_a_permit() {
        let beside = permits([(1, 1)]).granted(2, "b", (100, 105), 2).released(2, 2, (300, 305));
        beside.violates(C3, "client 1 holds");
    }

    /// Client 1 is to release at 1.6 s; client 2 shares the lock from 1 s to 1.5 s.
    fn beside_reader(first: HistoryBuilder) -> HistoryBuilder {
        let reader = first.granted(2, "b", (990, 1_000), 2).shared().released(2, 2, (1_500, 1_510));
        reader.released(1, 1, (1_600, 1_610))
    }

    fn unknown() -> ConvertEnd {
        ConvertEnd::Unknown("reset".into())
    }

    #[test]
    fn a_writer_that_asked_to_be_a_reader_excludes_none() {
        let writer = || HistoryBuilder::new().granted(1, "a", (0, 5), 1);
        beside_reader(writer()).violates(C3, "client 1 holds");
        beside_reader(writer().downgraded(1, 1, (900, 910))).satisfies(C3);
        beside_reader(writer().downgraded(1, 1, (1_100, 1_110))).violates(C3, "client 1 holds");
        beside_reader(writer().downgrade(1, 1, (900, 910), unknown())).satisfies(C3);
        let refused = ConvertEnd::Refused("NOT_CONVERTIBLE".into());
        beside_reader(writer().downgrade(1, 1, (900, 910), refused)).violates(C3, "client 1 holds");
        let writer_beside = writer().downgraded(1, 1, (900, 910)).granted(2, "b", (990, 1_000), 2);
        writer_beside.released(2, 2, (1_500, 1_510)).released(1, 1, (1_600, 1_610)).violates(C3, "client 1 holds");
    }

    #[test]
    fn a_reader_that_became_a_writer_excludes_all() {
        let reader = || HistoryBuilder::new().granted(1, "a", (0, 5), 1).shared();
        beside_reader(reader().upgraded(1, 1, (900, 910), 3)).violates(C3, "client 1 holds 1795000000000001");
        beside_reader(reader().upgraded(1, 1, (1_200, 1_210), 3)).violates(C3, "client 1 holds 1795000000000001");
        beside_reader(reader().upgraded(1, 1, (1_510, 1_520), 3)).satisfies(C3);
        beside_reader(reader().upgrade(1, 1, (900, 910), ConvertEnd::Contended)).satisfies(C3);
        beside_reader(reader().upgrade(1, 1, (900, 910), unknown())).satisfies(C3);
        let both = reader().upgraded(1, 1, (100, 110), 3).downgraded(1, 3, (200, 210));
        beside_reader(both).satisfies(C3);
    }

    #[test]
    fn two_holders() {
        overlap().lost(1, 1, 1_880, "deadline", None).violates(C3, "client 1 holds 1795000000000001 from 0.005000 s");
    }

    #[test]
    fn readers_hold_together_and_no_writer_beside_them() {
        let readers = || {
            let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).shared();
            let builder = builder.granted(2, "b", (990, 1_000), 2).shared().released(2, 2, (1_500, 1_510));
            builder.lost(1, 1, 1_880, "deadline", None)
        };
        readers().satisfies(C3);
        // The newer reader has ended; the older one has not.
        readers().granted(3, "c", (1_590, 1_600), 3).released(3, 3, (1_700, 1_710)).violates(C3, "client 1 holds");
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).granted(2, "b", (990, 1_000), 2).shared();
        let builder = builder.released(2, 2, (1_010, 1_020)).granted(3, "c", (1_590, 1_600), 3).shared();
        let builder = builder.released(3, 3, (1_700, 1_710)).lost(1, 1, 1_880, "deadline", None);
        let found = builder.verdict().violations.iter().filter(|one| one.check == C3).count();
        assert_eq!(found, 2, "each reader beside the writer");
    }

    #[test]
    fn two_holders_by_a_renewal() {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).renewed(1, 1, (1_000, 1_005), 2_880);
        let builder = builder.granted(2, "b", (2_000, 2_200), 2).released(2, 2, (2_300, 2_310));
        builder.lost(1, 1, 2_880, "deadline", None).violates(C3, "to 2.880000 s");
    }

    #[test]
    fn a_long_lease_and_many_short_ones() {
        let mut builder = overlap().granted(3, "c", (1_600, 1_610), 3).released(3, 3, (1_620, 1_630));
        builder = builder.lost(1, 1, 1_880, "deadline", None);
        let verdict = builder.verdict();
        assert_eq!(verdict.violations.iter().filter(|one| one.check == C3).count(), 2, "{verdict:?}");
    }

    #[test]
    fn a_holder_that_knew_of_its_loss_holds_nothing() {
        overlap().lost(1, 1, 995, "released", None).satisfies(C3);
    }

    #[test]
    fn a_holder_that_releases_holds_nothing() {
        overlap().release_unknown(1, 1, (980, 3_000)).satisfies(C3);
        overlap().release_unknown(1, 1, (1_001, 3_000)).violates(C3, "holds");
    }

    #[test]
    fn a_grant_that_came_too_late_is_no_lease() {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 2_500), 1).grant(|grant| {
            grant.usable = false;
            grant.valid_until = 5_000_000_000_000;
        });
        builder.granted(2, "b", (2_000, 2_600), 2).released(2, 2, (2_700, 2_710)).satisfies(C3);
    }

    #[test]
    fn between_an_end_and_a_late_renewal_nothing_is_held() {
        // The renewal was sent at 1.8 s, in time, and answered at 2.5 s: the holder held nothing in between.
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).renewed(1, 1, (1_800, 2_500), 3_600);
        let builder = builder.granted(2, "b", (1_950, 2_000), 2).released(2, 2, (2_400, 2_410));
        builder.lost(1, 1, 3_600, "deadline", None).satisfies(C3);
    }

    #[test]
    fn a_loss_of_data_excuses() {
        let builder = overlap().lost(1, 1, 1_880, "deadline", None);
        builder.fault("wipe", "redis", (500, 600), Guarantees::NotMemory).excuses(C3, "wipe");
    }

    #[test]
    fn a_fault_with_all_guarantees_excuses_nothing() {
        let builder = overlap().lost(1, 1, 1_880, "deadline", None);
        builder.fault("sigkill-server", "server 1", (500, 600), Guarantees::All).violates(C3, "holds");
    }

    #[test]
    fn a_later_or_much_earlier_fault_excuses_nothing() {
        let builder = overlap().lost(1, 1, 1_880, "deadline", None);
        builder.clone().fault("wipe", "redis", (2_000, 2_010), Guarantees::NotMemory).violates(C3, "holds");
        builder.later(10_000).fault("wipe", "redis", (0, 10), Guarantees::NotMemory).violates(C3, "holds");
    }

    #[test]
    fn a_force_release_excuses_what_follows_it() {
        let builder = overlap().lost(1, 1, 1_880, "deadline", None);
        builder.clone().revoked(1, (900, 2_000), false).excuses(C3, "force-release");
        builder.revoked(1, (1_200, 2_000), true).violates(C3, "holds");
    }
}
