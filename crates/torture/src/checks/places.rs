//! The part of C3 about `min_hold` and `lock_delay`: nobody gets what a lease occupies before its `min_hold` is over,
//! nor, if its holder did not release it, before its `lock_delay` after its end.
//!
//! A grant was made after its request was sent first, and before the first answer with it. So a lease with a later
//! token, whose answer came before the earlier request was sent and its `min_hold` was over, was granted beside it. And
//! a lease ends at the earliest when its validity by the clock of its holder does.

use super::{
    c03_exclusion::is_revoked,
    findings::Findings,
    index::{History, Lock},
    lease::Lease,
};
use crate::{
    history::{Acquire, AcquireEnd, Nanos, PERMIT_LIMIT},
    verdict::Check,
};

pub(super) fn check_lock(history: &History<'_>, lock: &Lock<'_>, findings: &mut Findings) {
    // Leases are in the order of their tokens. An upgraded one has another, later token, and occupies the lock.
    let mut occupying: Vec<(Nanos, &Lease<'_>)> = Vec::new();
    for new in &lock.leases {
        let at = new.made_by();
        // An operator frees the place.
        occupying.retain(|(until, lease)| at < *until && !is_revoked(lease, at));
        if let Some((until, had, how)) = excluded_by(&occupying, new) {
            let what = format!(
                "client {} was granted {} by {}, {how} of {} (client {}) until {} by its min_hold or lock_delay",
                new.client,
                new.token,
                findings.at(at),
                had.token,
                had.client,
                findings.at(until),
            );
            findings.excusable(Check::C3, lock.name, what, history.excuse(had.asked_from(), until));
        }
        if let Some(until) = occupied_until(new) {
            occupying.push((until, new));
        }
    }
}

/// The earliest time at which what it has can be somebody else's, if one of its delays says so.
fn occupied_until(lease: &Lease<'_>) -> Option<Nanos> {
    let is_upgraded = lease.upgrades().next().is_some();
    let by_hold = (lease.min_hold() > 0 && !is_upgraded).then(|| lease.asked_from() + lease.min_hold());
    by_hold.max(delayed_until(lease))
}

/// A release, however late, ends the delay, and a conversion changes what is occupied. The cleanup of a call without an
/// answer may have ended the lease earlier.
fn delayed_until(lease: &Lease<'_>) -> Option<Nanos> {
    let is_answered = |one: &&Acquire| !matches!(one.end, AcquireEnd::Dropped | AcquireEnd::Unknown(_));
    let ended_by_itself = lease.releases.is_empty() && lease.conversions.is_empty() && lease.was_usable();
    let has_delay = lease.lock_delay() > 0 && ended_by_itself && lease.transmissions.iter().all(is_answered);
    lease.validity_known_at(Nanos::MAX).filter(|_| has_delay).map(|until| until + lease.lock_delay())
}

/// A lease that occupies what this one has got, and what that is.
fn excluded_by<'a>(
    occupying: &[(Nanos, &'a Lease<'a>)],
    new: &Lease<'_>,
) -> Option<(Nanos, &'a Lease<'a>, &'static str)> {
    let (until, first) = *occupying.first()?;
    if !new.is_beside_others() {
        return Some((until, first, "beside the place"));
    }
    let has_slot = |lease: &Lease<'_>| new.slots().any(|slot| slot != 0 && lease.slots().any(|taken| taken == slot));
    if let Some((until, had)) = occupying.iter().find(|(_, lease)| has_slot(lease)) {
        return Some((*until, *had, "in the slot"));
    }
    let used: u32 = occupying.iter().map(|(_, lease)| lease.permits()).sum();
    (used + new.permits() > PERMIT_LIMIT).then_some((until, first, "above the limit with the permits"))
}

#[cfg(test)]
mod tests {
    use crate::{checks::builder::HistoryBuilder, verdict::Check::C3};

    /// Client 1 shares the lock for 100 ms, with a min_hold of 1 s.
    fn reader() -> HistoryBuilder {
        let reader = HistoryBuilder::new().granted(1, "a", (0, 5), 1).shared().min_hold(1_000);
        reader.released(1, 1, (100, 105))
    }

    #[test]
    fn no_writer_gets_the_lock_within_the_min_hold_of_a_reader() {
        let writer = |at| reader().granted(2, "b", (at, at + 10), 2).released(2, 2, (at + 20, at + 25));
        writer(500).violates(C3, "client 2 was granted 1795000000000002 by 0.510000 s, beside the place");
        writer(980).violates(C3, "beside the place");
        // It may have been granted as late as that.
        writer(995).satisfies(C3);
        reader().granted(2, "b", (500, 510), 2).shared().released(2, 2, (520, 525)).satisfies(C3);
    }

    #[test]
    fn the_slot_and_the_permits_of_a_lease_are_used_for_its_min_hold() {
        let first = |permits, slot| {
            let first = HistoryBuilder::new().granted(1, "a", (0, 5), 1).permits(permits, slot).min_hold(1_000);
            first.released(1, 1, (100, 105))
        };
        let next = |first: HistoryBuilder, permits, slot| {
            first.granted(2, "b", (500, 510), 2).permits(permits, slot).released(2, 2, (520, 525))
        };
        next(first(1, 1), 1, 2).satisfies(C3);
        next(first(1, 1), 1, 1).violates(C3, "in the slot");
        next(first(2, 0), 1, 1).satisfies(C3);
        next(first(2, 0), 2, 0).violates(C3, "above the limit with the permits");
    }
    /// Client 1 holds the lock, with a lock_delay of 1 s, and is heard of no more: it ends at 1.885 s.
    fn silent() -> HistoryBuilder {
        HistoryBuilder::new().granted(1, "a", (0, 5), 1).lock_delay(1_000).lost(1, 1, 1_885, "deadline", None)
    }

    #[test]
    fn nobody_gets_the_lock_within_the_lock_delay_of_a_holder_that_did_not_release_it() {
        let next = |first: HistoryBuilder, at| first.granted(2, "b", (100, at), 2).released(2, 2, (at + 20, at + 25));
        next(silent(), 2_880).violates(C3, "beside the place of 1795000000000001 (client 1) until 2.885000 s");
        next(silent(), 2_890).satisfies(C3);
        // A release, however late, ends it.
        next(silent().released(1, 1, (2_000, 2_005)), 2_100).satisfies(C3);
        // A reader beside a reader.
        let readers = HistoryBuilder::new().granted(1, "a", (0, 5), 1).shared().lock_delay(1_000);
        let readers = readers.lost(1, 1, 1_885, "deadline", None).granted(2, "b", (1_900, 1_910), 2).shared();
        readers.released(2, 2, (1_920, 1_925)).satisfies(C3);
    }
}
