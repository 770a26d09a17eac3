//! C8: a holder knows that its lease is lost no later than the end of its own reckoning; what the server says of the
//! end is so; and an ended lease stays ended.
//!
//! A holder that was paused may know later, but has to know when it goes on; one that was killed knows nothing. A lease
//! may end before its time by a force release, or because a call for it was dropped; otherwise only a fault excuses
//! that.

use super::{
    findings::{Findings, Span},
    index::{History, Lock},
    lease::Lease,
    quiet::{forgets, hits_client, is_kill_of_client, overlaps},
};
use crate::{
    history::{AcquireEnd, Lost, Nanos},
    verdict::Check,
};

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    for lock in &history.locks {
        let known = highest_known(lock);
        for lease in &lock.leases {
            told_in_time(history, lock, lease, findings);
            for lost in &lease.losts {
                told_the_truth(history, lock, lease, lost, findings);
            }
            stays_ended(history, lock, lease, &known, findings);
        }
    }
}

fn told_in_time(history: &History<'_>, lock: &Lock<'_>, lease: &Lease<'_>, findings: &mut Findings) {
    let slack = history.bounds.slack;
    let (client, token) = (lease.client, lease.token);
    let faults = || history.faults.iter().filter(|fault| hits_client(fault, client));
    let Some(stopped) = lease.stopped() else {
        let Some(until) = lease.reckoned_at(Nanos::MAX) else { return };
        let is_killed = faults().any(|fault| is_kill_of_client(fault) && fault.begin >= lease.asked_from());
        let is_cut_off = history.run.is_some_and(|run| until.saturating_add(slack) >= run.end);
        if !is_killed && !is_cut_off {
            let what =
                format!("client {client} was never told of the end of {token}, valid until {}", findings.at(until));
            findings.wrong(Check::C8, lock.name, what);
        }
        return;
    };
    let Some(until) = lease.reckoned_at(stopped) else { return };
    if stopped <= until.saturating_add(slack) {
        return;
    }
    // It could not know while it did not run.
    let woke = faults().filter(|fault| fault.begin <= stopped && fault.end <= stopped).map(|fault| fault.end).max();
    let due = until.max(woke.unwrap_or(0)).saturating_add(slack);
    if stopped > due && !faults().any(|fault| fault.begin <= stopped && fault.end > stopped) {
        let late = Span(stopped - until);
        let (until, at) = (findings.at(until), findings.at(stopped));
        let what = format!("client {client} held {token} until {at}, {late} after its end at {until}");
        findings.wrong(Check::C8, lock.name, what);
    }
}

fn told_the_truth(history: &History<'_>, lock: &Lock<'_>, lease: &Lease<'_>, lost: &Lost, findings: &mut Findings) {
    let at = findings.at(lost.at);
    let told = format!("client {} was told at {at} that {} is {}", lost.client, lost.token, lost.cause);
    if let Some(successor) = lost.successor.filter(|successor| *successor <= lost.token) {
        // A lease of before can be back in a store that lost data.
        let excuse = history.excuse(lease.asked_from(), lost.at, forgets);
        findings.excusable(Check::C8, lock.name, format!("{told}, and that its successor is {successor}"), excuse);
    }
    let is_revoked = lease.revokes.iter().any(|revoked| revoked.invoke <= lost.at);
    let is_released = lease.releases.iter().any(|release| release.invoke <= lost.at);
    match lost.cause.as_str() {
        "revoked" if !is_revoked => findings.wrong(Check::C8, lock.name, format!("{told}, which nobody asked for")),
        "released" if !is_released => findings.wrong(Check::C8, lock.name, format!("{told}, which nobody asked for")),
        "expired" | "superseded" | "unknown" => {
            let is_dropped =
                lease.transmissions.iter().any(|one| matches!(one.end, AcquireEnd::Dropped | AcquireEnd::Unknown(_)));
            let until = lease.reckoned_at(lost.at).filter(|until| lost.at < *until);
            if let Some(until) = until.filter(|_| !is_revoked && !is_released && !is_dropped) {
                let excuse = history.excuse(lease.asked_from(), lost.at, overlaps);
                let what = format!("{told}, which it had until {}", findings.at(until));
                findings.excusable(Check::C8, lock.name, what, excuse);
            }
        }
        _ => {}
    }
}

fn stays_ended(
    history: &History<'_>,
    lock: &Lock<'_>,
    lease: &Lease<'_>,
    known: &[(Nanos, u64)],
    findings: &mut Findings,
) {
    // By its holder's own reckoning a lease is over before it is by the server's, which may renew it still.
    let lost = lease.losts.iter().filter(|lost| lost.cause != "deadline").map(|lost| lost.at).min();
    let over = lost.into_iter().chain(lease.told_over()).min();
    for renewed in &lease.renewals {
        let before = known.partition_point(|(at, _)| *at < renewed.sent);
        let newer = before.checked_sub(1).map(|last| known[last].1).filter(|token| *token > lease.token);
        let since = over.filter(|over| *over < renewed.sent);
        let how = match (since, newer) {
            (Some(over), _) => format!("had ended by {}", findings.at(over)),
            (None, Some(newer)) => format!("had the successor {newer}"),
            (None, None) => continue,
        };
        let (sent, at) = (findings.at(renewed.sent), findings.at(renewed.at));
        let what = format!("{} {how}; a renewal sent at {sent} revived it at {at}", lease.token);
        let excuse = history.excuse(since.unwrap_or(renewed.sent), renewed.at, overlaps);
        findings.excusable(Check::C8, lock.name, what, excuse);
    }
}

/// The highest token that was known to somebody, by when it was.
fn highest_known(lock: &Lock<'_>) -> Vec<(Nanos, u64)> {
    let mut known: Vec<_> = lock.leases.iter().map(|lease| (lease.made_by(), lease.token)).collect();
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
        checks::story::Story,
        history::{AcquireEnd, Leaves},
        verdict::Check::C8,
    };

    /// Valid until 1.885 s.
    fn held() -> Story {
        Story::new().got(1, "a", (0, 5), 1)
    }

    #[test]
    fn never_told() {
        held().shows(C8, "client 1 was never told of the end of 1795000000000001, valid until 1.885000 s");
        held().fault("sigstop-client", "client 1", (100, 3_000), Leaves::All).shows(C8, "never told");
    }

    #[test]
    fn told_late() {
        held().lost(1, 1, 2_900, "deadline", None).shows(C8, "until 2.900000 s, 1.015000 s after its end");
        held().released(1, 1, (2_900, 2_910)).shows(C8, "after its end at 1.885000 s");
        held().lost(1, 1, 2_800, "deadline", None).passes();
    }

    #[test]
    fn told_late_after_a_renewal() {
        let story = held().renewed(1, 1, (600, 605), 2_480);
        story.clone().lost(1, 1, 2_900, "deadline", None).passes();
        story.lost(1, 1, 3_500, "deadline", None).shows(C8, "after its end at 2.480000 s");
    }

    #[test]
    fn a_paused_holder_knows_when_it_goes_on() {
        let paused = held().fault("sigstop-client", "client 1", (100, 5_000), Leaves::All);
        paused.clone().lost(1, 1, 5_010, "deadline", None).passes();
        paused.lost(1, 1, 6_010, "deadline", None).shows(C8, "after its end");
        let other = held().fault("sigstop-client", "client 2", (100, 5_000), Leaves::All);
        other.lost(1, 1, 5_010, "deadline", None).shows(C8, "after its end");
        let server = held().fault("sigstop-server", "server 1", (100, 5_000), Leaves::All);
        server.lost(1, 1, 5_010, "deadline", None).shows(C8, "after its end");
    }

    #[test]
    fn the_dead_know_nothing() {
        held().fault("sigkill-client", "client 1", (100, 200), Leaves::All).passes();
        held().fault("sigkill-client", "client 11", (100, 200), Leaves::All).shows(C8, "never told");
    }

    #[test]
    fn a_successor_below() {
        held().lost(1, 1, 1_885, "superseded", Some(1)).shows(C8, "and that its successor is 1795000000000001");
    }

    #[test]
    fn ended_before_its_time() {
        held().lost(1, 1, 1_000, "expired", None).shows(C8, "is expired, which it had until 1.885000 s");
        held().lost(1, 1, 1_000, "superseded", Some(2)).shows(C8, "which it had until");
        let story = held().lost(1, 1, 1_000, "unknown", None);
        story.fault("wipe", "redis", (500, 600), Leaves::NotMemory).excuses(C8, "wipe");
        held().revoked(1, (900, 950), false).lost(1, 1, 1_000, "superseded", Some(2)).passes();
        held().ended(1, "a", (20, 50), AcquireEnd::Dropped).attempt(2).lost(1, 1, 1_800, "expired", None).passes();
    }

    #[test]
    fn ended_by_nobody() {
        held().lost(1, 1, 1_000, "revoked", None).shows(C8, "nobody asked for");
        held().lost(1, 1, 1_000, "released", None).shows(C8, "nobody asked for");
        held().revoked(1, (990, 1_005), true).lost(1, 1, 1_000, "revoked", None).passes();
    }

    #[test]
    fn revived() {
        let story = held().lost(1, 1, 1_000, "revoked", None).revoked(1, (900, 950), true);
        story.clone().renewed(1, 1, (980, 1_010), 2_800).shows(C8, "had ended by 0.950000 s");
        story.clone().renewed(1, 1, (940, 1_010), 2_800).passes();
        held().lost(1, 1, 1_885, "deadline", None).renewed(1, 1, (1_886, 1_890), 3_700).passes();
        let story = story.renewed(1, 1, (1_001, 1_010), 2_800);
        story.fault("restore", "redis", (990, 1_000), Leaves::NotMemory).excuses(C8, "restore");
    }

    #[test]
    fn revived_after_its_successor() {
        let story = held().got(2, "b", (1_000, 2_000), 2).released(2, 2, (2_010, 2_020));
        let story = story.lost(1, 1, 4_100, "deadline", None);
        story.clone().renewed(1, 1, (2_005, 2_010), 4_000).shows(C8, "had the successor 1795000000000002");
        story.renewed(1, 1, (1_800, 2_010), 4_000).shows_no(C8);
    }
}
