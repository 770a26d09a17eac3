//! C8: a holder learns of the loss of its lease at the latest when its validity ends by its clock; the server reports
//! ends correctly; and an ended lease stays ended.
//!
//! A paused holder may learn it later, but must know when it resumes; a killed one learns nothing. A lease may end
//! early by a force release, or because its call was dropped; otherwise only a fault excuses that.

use super::{
    fault_windows::{hits_client, is_kill_of_client},
    findings::{Findings, Period},
    index::{History, Lock},
    lease::Lease,
};
use crate::{
    history::{AcquireEnd, Lost, Nanos},
    verdict::Check,
};

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    for lock in &history.locks {
        let (known, exclusive) =
            (highest_known(lock, |_| true), highest_known(lock, |lease| !lease.is_beside_others()));
        for lease in &lock.leases {
            check_loss_in_time(history, lock, lease, findings);
            for lost in &lease.losses {
                check_reported_cause(history, lock, lease, lost, findings);
            }
            // Beside a reader, newer readers hold the lock.
            let known = if lease.may_be_beside_others() { &exclusive } else { &known };
            check_not_revived(history, lock, lease, known, findings);
        }
    }
}

fn check_loss_in_time(history: &History<'_>, lock: &Lock<'_>, lease: &Lease<'_>, findings: &mut Findings) {
    let slack = history.bounds.slack;
    let (client, token) = (lease.client, lease.token);
    let faults = || history.faults.iter().filter(|fault| hits_client(fault, client));
    let Some(stopped) = lease.stopped() else {
        let Some(until) = lease.validity_known_at(Nanos::MAX) else { return };
        let is_killed = faults().any(|fault| is_kill_of_client(fault) && fault.begin >= lease.asked_from());
        let is_cut_off = history.run.is_some_and(|run| until.saturating_add(slack) >= run.end);
        if !is_killed && !is_cut_off {
            let what =
                format!("client {client} never learned of the end of {token}, valid until {}", findings.at(until));
            findings.violation(Check::C8, lock.name, what);
        }
        return;
    };
    let Some(until) = lease.validity_known_at(stopped) else { return };
    if stopped <= until.saturating_add(slack) {
        return;
    }
    // It could not know while it did not run.
    let woke = faults().filter(|fault| fault.begin <= stopped && fault.end <= stopped).map(|fault| fault.end).max();
    let due = until.max(woke.unwrap_or(0)).saturating_add(slack);
    if stopped > due && !faults().any(|fault| fault.begin <= stopped && fault.end > stopped) {
        let late = Period(stopped - until);
        let (until, at) = (findings.at(until), findings.at(stopped));
        let what = format!("client {client} held {token} until {at}, {late} after its end at {until}");
        findings.violation(Check::C8, lock.name, what);
    }
}

fn check_reported_cause(
    history: &History<'_>,
    lock: &Lock<'_>,
    lease: &Lease<'_>,
    lost: &Lost,
    findings: &mut Findings,
) {
    let at = findings.at(lost.at);
    let reported = format!("client {} learned at {at} that {} is {}", lost.client, lost.token, lost.cause);
    // Beside readers, an older one may hold the lock now.
    let below = lost.successor.filter(|successor| *successor <= lost.token && !lease.may_be_beside_others());
    if let Some(successor) = below {
        // An old lease can be back in a store that lost data.
        let excuse = history.excuse(lease.asked_from(), lost.at);
        findings.excusable(Check::C8, lock.name, format!("{reported}, and that its successor is {successor}"), excuse);
    }
    let is_revoked = lease.revokes.iter().any(|revoked| revoked.invoke <= lost.at);
    let is_released = lease.releases.iter().any(|release| release.invoke <= lost.at);
    match lost.cause.as_str() {
        "revoked" if !is_revoked => findings.violation(Check::C8, lock.name, format!("{reported}, without a request")),
        "released" if !is_released => {
            findings.violation(Check::C8, lock.name, format!("{reported}, without a request"));
        }
        "expired" | "superseded" | "unknown" => {
            let is_dropped =
                lease.transmissions.iter().any(|one| matches!(one.end, AcquireEnd::Dropped | AcquireEnd::Unknown(_)));
            let until = lease.validity_known_at(lost.at).filter(|until| lost.at < *until);
            if let Some(until) = until.filter(|_| !is_revoked && !is_released && !is_dropped) {
                let excuse = history.excuse(lease.asked_from(), lost.at);
                let what = format!("{reported}, which it had until {}", findings.at(until));
                findings.excusable(Check::C8, lock.name, what, excuse);
            }
        }
        _ => {}
    }
}

fn check_not_revived(
    history: &History<'_>,
    lock: &Lock<'_>,
    lease: &Lease<'_>,
    known: &[(Nanos, u64)],
    findings: &mut Findings,
) {
    // By its holder's clock a lease ends earlier than by the server's, which may still renew it.
    let lost = lease.losses.iter().filter(|lost| lost.cause != "deadline").map(|lost| lost.at).min();
    let over = lost.into_iter().chain(lease.ended_by_server()).min();
    for renewed in &lease.renewals {
        let before = known.partition_point(|(at, _)| *at < renewed.sent);
        let newer = before.checked_sub(1).map(|last| known[last].1).filter(|token| *token > lease.newest_token());
        let since = over.filter(|over| *over < renewed.sent);
        let how = match (since, newer) {
            (Some(over), _) => format!("had ended by {}", findings.at(over)),
            (None, Some(newer)) => format!("had the successor {newer}"),
            (None, None) => continue,
        };
        let (sent, at) = (findings.at(renewed.sent), findings.at(renewed.at));
        let what = format!("{} {how}; a renewal sent at {sent} revived it at {at}", lease.token);
        let excuse = history.excuse(since.unwrap_or(renewed.sent), renewed.at);
        findings.excusable(Check::C8, lock.name, what, excuse);
    }
}

/// The highest known token of those that count, by the time at which it was known.
fn highest_known(lock: &Lock<'_>, counts: impl Fn(&Lease<'_>) -> bool) -> Vec<(Nanos, u64)> {
    let counted = lock.leases.iter().filter(|lease| counts(lease));
    let granted = counted.map(|lease| (lease.made_by(), lease.token));
    // An upgraded lease is alone.
    let upgraded = lock.leases.iter().flat_map(Lease::upgrades).map(|upgrade| (upgrade.by, upgrade.token));
    let mut known: Vec<_> = granted.chain(upgraded).collect();
    known.sort_unstable();
    let mut highest = 0;
    for (_, token) in &mut known {
        highest = highest.max(*token);
        *token = highest;
    }
    known
}

#[cfg(test)]
mod tests {
    use crate::{
        checks::builder::HistoryBuilder,
        history::{AcquireEnd, Guarantees},
        verdict::Check::C8,
    };

    /// Valid until 1.885 s.
    fn held() -> HistoryBuilder {
        HistoryBuilder::new().granted(1, "a", (0, 5), 1)
    }

    #[test]
    fn never_learned() {
        held().violates(C8, "client 1 never learned of the end of 1795000000000001, valid until 1.885000 s");
        held().fault("sigstop-client", "client 1", (100, 3_000), Guarantees::All).violates(C8, "never learned");
    }

    #[test]
    fn learned_late() {
        held().lost(1, 1, 2_900, "deadline", None).violates(C8, "until 2.900000 s, 1.015000 s after its end");
        held().released(1, 1, (2_900, 2_910)).violates(C8, "after its end at 1.885000 s");
        held().lost(1, 1, 2_800, "deadline", None).passes();
    }

    #[test]
    fn learned_late_after_a_renewal() {
        let builder = held().renewed(1, 1, (600, 605), 2_480);
        builder.clone().lost(1, 1, 2_900, "deadline", None).passes();
        builder.lost(1, 1, 3_500, "deadline", None).violates(C8, "after its end at 2.480000 s");
    }

    #[test]
    fn a_paused_holder_knows_when_it_resumes() {
        let paused = held().fault("sigstop-client", "client 1", (100, 5_000), Guarantees::All);
        paused.clone().lost(1, 1, 5_010, "deadline", None).passes();
        paused.lost(1, 1, 6_010, "deadline", None).violates(C8, "after its end");
        let other = held().fault("sigstop-client", "client 2", (100, 5_000), Guarantees::All);
        other.lost(1, 1, 5_010, "deadline", None).violates(C8, "after its end");
        let server = held().fault("sigstop-server", "server 1", (100, 5_000), Guarantees::All);
        server.lost(1, 1, 5_010, "deadline", None).violates(C8, "after its end");
    }

    #[test]
    fn killed_holders_know_nothing() {
        held().fault("sigkill-client", "client 1", (100, 200), Guarantees::All).passes();
        held().fault("sigkill-client", "client 11", (100, 200), Guarantees::All).violates(C8, "never learned");
    }

    #[test]
    fn a_successor_below() {
        held().lost(1, 1, 1_885, "superseded", Some(1)).violates(C8, "and that its successor is 1795000000000001");
    }

    #[test]
    fn ended_early() {
        held().lost(1, 1, 1_000, "expired", None).violates(C8, "is expired, which it had until 1.885000 s");
        held().lost(1, 1, 1_000, "superseded", Some(2)).violates(C8, "which it had until");
        let builder = held().lost(1, 1, 1_000, "unknown", None);
        builder.fault("wipe", "redis", (500, 600), Guarantees::NotMemory).excuses(C8, "wipe");
        held().revoked(1, (900, 950), false).lost(1, 1, 1_000, "superseded", Some(2)).passes();
        held().ended(1, "a", (20, 50), AcquireEnd::Dropped).attempt(2).lost(1, 1, 1_800, "expired", None).passes();
    }

    #[test]
    fn ended_without_a_request() {
        held().lost(1, 1, 1_000, "revoked", None).violates(C8, "without a request");
        held().lost(1, 1, 1_000, "released", None).violates(C8, "without a request");
        held().revoked(1, (990, 1_005), true).lost(1, 1, 1_000, "revoked", None).passes();
    }

    #[test]
    fn revived() {
        let builder = held().lost(1, 1, 1_000, "revoked", None).revoked(1, (900, 950), true);
        builder.clone().renewed(1, 1, (980, 1_010), 2_800).violates(C8, "had ended by 0.950000 s");
        builder.clone().renewed(1, 1, (940, 1_010), 2_800).passes();
        held().lost(1, 1, 1_885, "deadline", None).renewed(1, 1, (1_886, 1_890), 3_700).passes();
        let builder = builder.renewed(1, 1, (1_001, 1_010), 2_800);
        builder.fault("restore", "redis", (990, 1_000), Guarantees::NotMemory).excuses(C8, "restore");
    }

    #[test]
    fn a_reader_is_renewed_beside_newer_readers_and_not_after_a_writer() {
        let reader = || held().shared().granted(2, "b", (1_000, 2_000), 2);
        let end = |builder: HistoryBuilder| {
            let builder = builder.released(2, 2, (2_010, 2_020)).renewed(1, 1, (2_005, 2_010), 4_000);
            builder.lost(1, 1, 4_100, "deadline", None)
        };
        end(reader().shared()).satisfies(C8);
        end(reader()).violates(C8, "had the successor 1795000000000002");
    }

    #[test]
    fn a_converted_lease_is_renewed_and_others_before_it_are_not() {
        let reader = || held().shared().granted(2, "b", (10, 15), 2).shared();
        let other =
            |builder: HistoryBuilder| builder.renewed(1, 1, (600, 605), 2_480).lost(1, 1, 2_480, "deadline", None);
        let upgraded = reader().upgraded(2, 2, (500, 505), 3).renewed(2, 3, (600, 605), 2_480);
        other(upgraded.released(2, 3, (700, 705))).violates(C8, "1795000000000001 had the successor 1795000000000003");
        other(reader().released(2, 2, (700, 705))).satisfies(C8);
        let downgraded = held().downgraded(1, 1, (100, 105)).granted(2, "b", (200, 205), 2).shared();
        other(downgraded.released(2, 2, (300, 305))).passes();
        held().downgraded(1, 1, (100, 105)).upgraded(1, 1, (200, 205), 2).released(1, 2, (300, 305)).passes();
    }

    #[test]
    fn revived_after_its_successor() {
        let builder = held().granted(2, "b", (1_000, 2_000), 2).released(2, 2, (2_010, 2_020));
        let builder = builder.lost(1, 1, 4_100, "deadline", None);
        builder.clone().renewed(1, 1, (2_005, 2_010), 4_000).violates(C8, "had the successor 1795000000000002");
        builder.renewed(1, 1, (1_800, 2_010), 4_000).satisfies(C8);
    }
}
