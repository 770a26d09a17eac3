//! C7: a request has one effect, however often it is sent: all its grants are one, and it is not granted after its end.
//!
//! The server remembers a request for 10 s from its end. A second grant is a violation only within that time of the
//! earliest possible end. Lost data in between excuses it. OVERTAKEN means that a newer attempt is bound. If there is
//! none, it counts as an answer that the request has ended: a cleanup removes only its own call, whose answer nobody
//! reads.

use super::{
    findings::Findings,
    index::{History, Lock, MEMORY, first_sent},
    lease::Lease,
};
use crate::{
    history::{Acquire, AcquireEnd, Grant, Nanos},
    verdict::Check,
};

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    for lock in &history.locks {
        for transmissions in lock.requests.values().filter(|all| all.len() > 1) {
            let mut found = two_grants(lock, transmissions, findings);
            found.extend(granted_after_its_end(lock, transmissions, findings));
            for (until, what) in found {
                let excuse = history.excuse(first_sent(transmissions), until);
                findings.excusable(Check::C7, lock.name, what, excuse);
            }
        }
    }
}

/// Violations, with the time by which they had happened.
type Violations = Vec<(Nanos, String)>;

fn granted<'a>(transmissions: &[&'a Acquire]) -> Vec<(&'a Acquire, &'a Grant)> {
    let grants = transmissions.iter().filter_map(|one| match &one.end {
        AcquireEnd::Acquired(grant) => Some((*one, grant)),
        _ => None,
    });
    let mut grants: Vec<_> = grants.collect();
    grants.sort_by_key(|(acquire, _)| acquire.ret);
    grants
}

fn two_grants(lock: &Lock<'_>, transmissions: &[&Acquire], findings: &Findings) -> Violations {
    let grants = granted(transmissions);
    let Some((first, had)) = grants.first() else { return Vec::new() };
    let ended_from = ended_from(lock, had);
    // One that was upgraded in between has another token.
    let of_lease = |grant: &Grant| lock.leases.iter().position(|lease| lease.is_of(grant));
    let others = grants.iter().filter(|(acquire, grant)| {
        let is_same = (grant.token, &grant.grant) == (had.token, &had.grant) || of_lease(grant) == of_lease(had);
        !is_same && acquire.ret <= ended_from.saturating_add(MEMORY)
    });
    let reported = |(acquire, grant): &(&Acquire, &Grant)| {
        let (before, then) = (findings.at(first.ret), findings.at(acquire.ret));
        let what = format!(
            "request {} was granted twice: {} of grant {} at {before}, {} of grant {} at {then}",
            first.request, had.token, had.grant, grant.token, grant.grant
        );
        (acquire.ret, what)
    };
    others.map(reported).collect()
}

/// The earliest possible end of the lease of this grant.
fn ended_from(lock: &Lock<'_>, grant: &Grant) -> Nanos {
    let last = lock.leases.partition_point(|lease| lease.token <= grant.token);
    // Mostly the last of these: only an upgraded one has a higher token than that of its grant.
    let lease = lock.leases[..last].iter().rev().find(|lease| lease.is_of(grant));
    lease.map_or(0, Lease::ended_from)
}

fn granted_after_its_end(lock: &Lock<'_>, transmissions: &[&Acquire], findings: &Findings) -> Violations {
    let mut found = Vec::new();
    let grants = granted(transmissions);
    for end in transmissions {
        let (how, ended_from) = match end.end {
            AcquireEnd::TimedOut => ("timed out", timed_out_from(transmissions, end)),
            AcquireEnd::Aborted if is_newest(transmissions, end) => {
                ("ended", aborted_from(lock, transmissions, &grants))
            }
            AcquireEnd::Overtaken if is_newest(transmissions, end) => {
                ("been overtaken by nobody", aborted_from(lock, transmissions, &grants))
            }
            _ => continue,
        };
        for (acquire, grant) in &grants {
            if acquire.invoke > end.ret && acquire.ret <= ended_from.saturating_add(MEMORY) {
                let (then, asked, got) = (findings.at(end.ret), findings.at(acquire.invoke), findings.at(acquire.ret));
                let what = format!(
                    "request {} was reported to have {how} at {then}; sent again at {asked}, it got {} at {got}",
                    end.request, grant.token
                );
                found.push((acquire.ret, what));
            }
        }
    }
    found
}

/// The earliest possible end of a request that timed out: the end of its wait, unless an earlier transmission with an
/// unknown outcome had ended it already.
fn timed_out_from(transmissions: &[&Acquire], end: &Acquire) -> Nanos {
    let earlier = transmissions.iter().filter(|one| one.invoke < end.invoke).map(|one| one.invoke).min();
    let due = end.invoke.saturating_add(end.wait);
    earlier.unwrap_or(if due <= end.ret { due } else { end.invoke })
}

/// Whether no newer attempt was sent before this one was answered.
fn is_newest(transmissions: &[&Acquire], end: &Acquire) -> bool {
    transmissions.iter().all(|one| one.attempt <= end.attempt || one.invoke > end.ret)
}

fn aborted_from(lock: &Lock<'_>, transmissions: &[&Acquire], grants: &[(&Acquire, &Grant)]) -> Nanos {
    grants.first().map_or_else(|| first_sent(transmissions), |(_, grant)| ended_from(lock, grant))
}

#[cfg(test)]
mod tests {
    use crate::{
        checks::builder::HistoryBuilder,
        history::{AcquireEnd, Guarantees},
        verdict::Check::C7,
    };

    fn twice() -> HistoryBuilder {
        HistoryBuilder::new().granted(1, "a", (0, 5), 1).granted(1, "a", (2_100, 2_105), 2).attempt(2)
    }

    #[test]
    fn granted_twice() {
        let builder = twice().lost(1, 1, 1_880, "deadline", None).released(1, 2, (2_200, 2_205));
        builder.violates(C7, "request a was granted twice");
    }

    #[test]
    fn granted_twice_after_data_was_lost() {
        twice().fault("wipe", "redis", (1_000, 1_200), Guarantees::NotMemory).excuses(C7, "wipe");
        twice().fault("clock", "redis", (1_000, 1_200), Guarantees::All).violates(C7, "granted twice");
        twice().fault("wipe", "redis", (2_110, 2_120), Guarantees::NotMemory).violates(C7, "granted twice");
    }

    #[test]
    fn granted_again_after_it_was_forgotten() {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).released(1, 1, (10, 12));
        let builder = builder.granted(1, "a", (10_020, 10_025), 2).attempt(2).released(1, 2, (10_030, 10_031));
        builder.satisfies(C7);
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).released(1, 1, (10, 12));
        let builder = builder.granted(1, "a", (9_990, 9_995), 2).attempt(2).released(1, 2, (10_030, 10_031));
        builder.violates(C7, "granted twice");
    }

    #[test]
    fn granted_after_its_wait_ended() {
        let builder = HistoryBuilder::new().ended(1, "a", (0, 5_010), AcquireEnd::TimedOut).wait(5_000);
        builder
            .granted(1, "a", (6_000, 6_005), 1)
            .attempt(2)
            .released(1, 1, (6_100, 6_110))
            .violates(C7, "reported to have timed out");
    }

    #[test]
    fn granted_after_a_try_or_concurrently() {
        let builder = HistoryBuilder::new().ended(1, "a", (0, 10), AcquireEnd::Contended).wait(0);
        builder.granted(1, "a", (20, 25), 1).attempt(2).released(1, 1, (100, 110)).satisfies(C7);
        // A duplicate sent before the other's answer arrived may have won.
        let builder = HistoryBuilder::new().ended(1, "a", (0, 5_010), AcquireEnd::TimedOut).wait(5_000);
        builder.granted(1, "a", (5_000, 5_020), 1).released(1, 1, (6_100, 6_110)).satisfies(C7);
    }

    #[test]
    fn granted_after_it_was_reported_as_ended() {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).released(1, 1, (10, 12));
        let builder = builder.ended(1, "a", (20, 25), AcquireEnd::Aborted).attempt(2);
        builder.granted(1, "a", (30, 35), 1).attempt(3).violates(C7, "reported to have ended at 0.025000 s");
    }

    #[test]
    fn overtaken_by_nobody() {
        let overtaken = HistoryBuilder::new().ended(1, "a", (40, 60), AcquireEnd::Overtaken);
        let got = |builder: HistoryBuilder| {
            builder.granted(1, "a", (6_000, 6_005), 1).attempt(2).released(1, 1, (6_100, 6_110))
        };
        got(overtaken.clone()).violates(C7, "reported to have been overtaken by nobody");
        // The cleanup after another call with the same attempt number must not matter.
        let given_up = overtaken.ended(1, "a", (0, 50), AcquireEnd::Unknown("away".into()));
        got(given_up).violates(C7, "reported to have been overtaken by nobody");
    }

    #[test]
    fn an_attempt_that_a_newer_one_replaced() {
        let builder = HistoryBuilder::new()
            .ended(1, "a", (0, 100), AcquireEnd::Overtaken)
            .granted(1, "a", (90, 95), 1)
            .attempt(2);
        let builder = builder.granted(1, "a", (110, 115), 1).attempt(2);
        builder.released(1, 1, (200, 210)).satisfies(C7);
    }
}
