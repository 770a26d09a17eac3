//! C6: first come, first served, across replicas: but for readers, and holders of permits, among each other, which come
//! in together.
//!
//! A request that was sent once and waited is certainly queued 1 s, or the slack if that is more, after it was sent. A
//! request first sent after that and granted before it, by tokens or because the earlier one timed out, has overtaken
//! it. All are counted; only those that no fault reaches are violations.

use super::{
    fault_windows::FaultWindows,
    findings::Findings,
    index::{History, Lock, SECOND},
    lease::Lease,
};
use crate::{
    history::{Acquire, AcquireEnd, Nanos},
    verdict::Check,
};

/// Returns the number of overtaken requests, with or without faults.
pub(crate) fn check(history: &History<'_>, findings: &mut Findings) -> u64 {
    let windows = FaultWindows::by(history, |_| true);
    let queued_after = history.bounds.slack.max(SECOND);
    let mut inversions = 0;
    for lock in &history.locks {
        inversions += overtaken(lock, queued_after, |_| true).len() as u64;
        let quiet = |one: &Acquire| windows.are_clear(one.invoke, one.ret);
        for (first, token, jumper) in overtaken(lock, queued_after, quiet) {
            let (sent, got) = (findings.at(first.invoke), findings.at(first.ret));
            let (asked, jumped) = (findings.at(jumper.asked_from()), findings.at(jumper.made_by()));
            let what = format!(
                "client {} waited from {sent} and got {token} at {got}; client {} asked at {asked} and got the lower \
                 {} at {jumped}",
                first.client, jumper.client, jumper.token
            );
            findings.violation(Check::C6, lock.name, what);
        }
        for (first, jumped) in starved(lock, queued_after, history.bounds.slack, quiet) {
            let (sent, ret) = (findings.at(first.invoke), findings.at(first.ret));
            let what = format!(
                "client {} waited from {sent} to {ret} in vain; a later request was granted by {}",
                first.client,
                findings.at(jumped)
            );
            findings.violation(Check::C6, lock.name, what);
        }
    }
    inversions
}

/// Requests that were sent once and waited, with their tokens.
fn waited<'a>(lock: &'a Lock<'a>) -> impl Iterator<Item = (&'a Acquire, u64)> {
    lock.leases.iter().filter_map(|lease| match lease.transmissions.as_slice() {
        [one] if one.wait > 0 => Some((*one, lease.token)),
        _ => None,
    })
}

/// Each grant before one that was requested earlier, with the latter.
fn overtaken<'a>(
    lock: &'a Lock<'a>,
    queued_after: Nanos,
    counts: impl Fn(&Acquire) -> bool,
) -> Vec<(&'a Acquire, u64, &'a Lease<'a>)> {
    let mut first: Vec<_> = waited(lock).filter(|(one, _)| counts(one)).collect();
    first.sort_by_key(|(one, _)| one.invoke);
    let mut later: Vec<_> = lock.leases.iter().collect();
    later.sort_by_key(|lease| lease.asked_from());
    let mut first = first.into_iter().peekable();
    // Of all that waited, and of those that a reader, or a holder of permits, may not overtake.
    let mut last: Option<(&Acquire, u64)> = None;
    let mut last_exclusive: Option<(&Acquire, u64)> = None;
    let mut found = Vec::new();
    for lease in later {
        while let Some((one, token)) = first.next_if(|(one, _)| one.invoke + queued_after < lease.asked_from()) {
            last = last.filter(|(_, most)| *most > token).or(Some((one, token)));
            if !one.is_beside_others() {
                last_exclusive = last_exclusive.filter(|(_, most)| *most > token).or(Some((one, token)));
            }
        }
        let last = if lease.is_beside_others() { last_exclusive } else { last };
        if let Some((one, token)) = last.filter(|(_, token)| *token > lease.token) {
            found.push((one, token, lease));
        }
    }
    found
}

/// Each request that timed out although a later one was granted well before its wait ended.
fn starved<'a>(
    lock: &'a Lock<'a>,
    queued_after: Nanos,
    slack: Nanos,
    counts: impl Fn(&Acquire) -> bool,
) -> Vec<(&'a Acquire, Nanos)> {
    let mut granted: Vec<_> = lock.leases.iter().map(|lease| (lease.asked_from(), lease.made_by())).collect();
    granted.sort_unstable();
    // From here on: the earliest grant of all requests sent from then on.
    let mut earliest = Nanos::MAX;
    for (_, made_by) in granted.iter_mut().rev() {
        earliest = earliest.min(*made_by);
        *made_by = earliest;
    }
    let timed_out = |one: &&&Acquire| {
        let is_only = lock.requests.get(one.request.as_str()).is_some_and(|all| all.len() == 1);
        one.end == AcquireEnd::TimedOut && one.wait > 0 && is_only && counts(one)
    };
    let in_vain = |one: &&'a Acquire| {
        let next = granted.partition_point(|(asked, _)| *asked <= one.invoke + queued_after);
        let (_, made_by) = granted.get(next)?;
        let over = one.invoke.saturating_add(one.wait).min(one.ret);
        (made_by + slack < over).then_some((*one, *made_by))
    };
    lock.acquires.iter().filter(timed_out).filter_map(in_vain).collect()
}

#[cfg(test)]
mod tests {
    use crate::{
        checks::builder::HistoryBuilder,
        history::{AcquireEnd, Guarantees},
        verdict::Check::C6,
    };

    /// Client 1 holds; 2 asks at 0.1 s and 3 at `second`; 3 is served first.
    fn overtaking(second: u64) -> HistoryBuilder {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).renewed(1, 1, (1_800, 1_805), 3_680);
        let builder =
            builder.released(1, 1, (3_000, 3_005)).granted(3, "c", (second, 3_010), 2).released(3, 2, (3_100, 3_110));
        builder.granted(2, "b", (100, 3_115), 3).released(2, 3, (3_200, 3_205))
    }

    #[test]
    fn readers_come_in_together_and_overtake_no_writer() {
        let shares = |builder: HistoryBuilder, shared: bool| if shared { builder.shared() } else { builder };
        let overtaking = |first: bool, second: bool| {
            let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).renewed(1, 1, (1_800, 1_805), 3_680);
            let builder = builder.released(1, 1, (3_000, 3_005)).granted(3, "c", (1_200, 3_010), 2);
            let builder = shares(builder, second).released(3, 2, (3_100, 3_110)).granted(2, "b", (100, 3_115), 3);
            shares(builder, first).released(2, 3, (3_200, 3_205))
        };
        overtaking(true, true).satisfies(C6);
        overtaking(true, false).violates(C6, "client 2 waited");
        overtaking(false, true).violates(C6, "client 2 waited");
    }

    #[test]
    fn overtaken_in_the_queue() {
        let verdict = overtaking(1_200).verdict();
        assert_eq!(verdict.counts.inversions, 1);
        overtaking(1_200).violates(C6, "client 2 waited from 0.100000 s and got 1795000000000003 at 3.115000 s");
    }

    #[test]
    fn simultaneous_requests_have_no_order() {
        overtaking(1_000).passes();
    }

    #[test]
    fn near_a_fault_it_is_counted_only() {
        let verdict = overtaking(1_200).fault("partition", "server 1", (2_000, 2_100), Guarantees::All).verdict();
        assert!(verdict.is_good(), "{verdict:#?}");
        assert_eq!(verdict.counts.inversions, 1);
    }

    #[test]
    fn a_request_sent_twice_may_have_lost_its_queue_position() {
        overtaking(1_200).ended(2, "b", (50, 90), AcquireEnd::Unknown("reset".into())).satisfies(C6);
    }

    #[test]
    fn starved_by_later_ones() {
        let starved = |wait: u64| {
            let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).released(1, 1, (1_000, 1_005));
            let builder = builder.granted(3, "c", (1_200, 1_210), 2).released(3, 2, (1_300, 1_310));
            builder.ended(2, "b", (100, 100 + wait), AcquireEnd::TimedOut).wait(wait)
        };
        starved(3_000).violates(C6, "client 2 waited from 0.100000 s to 3.100000 s in vain");
        starved(2_000).passes();
    }

    #[test]
    fn served_in_order() {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).released(1, 1, (1_500, 1_505));
        let builder = builder.granted(2, "b", (100, 1_510), 2).released(2, 2, (3_000, 3_010));
        builder.granted(3, "c", (1_200, 3_015), 3).released(3, 3, (3_100, 3_110)).passes();
    }
}
