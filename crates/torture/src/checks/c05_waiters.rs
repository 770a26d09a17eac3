//! C5: no waiter is lost. After the run no lock has a waiter or a holder; every call ended when its wait was over; and
//! where no fault reaches, a free lock with a live waiter is granted within beats + claim window + slack.

use super::{
    fault_windows::FaultWindows,
    findings::{Findings, Period},
    free::stalls,
    index::{History, Lock},
};
use crate::{
    history::{AcquireEnd, Nanos, OPEN},
    verdict::Check,
};

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    let windows = FaultWindows::by(history, |_| true);
    for lock in &history.locks {
        for end in &lock.finals {
            if end.waiters > 0 {
                let who: String = end.waiting.iter().map(|waiter| format!("; {waiter}")).collect();
                findings.violation(Check::C5, lock.name, format!("{} still wait after the run{who}", end.waiters));
            }
            if end.held {
                findings.violation(Check::C5, lock.name, "it is still held after the run");
            }
        }
        check_ended_in_time(history, lock, findings);
        for stall in stalls(history, lock).into_iter().filter(|stall| windows.are_clear(stall.from, stall.until)) {
            let (from, until, waiter) = (findings.at(stall.from), findings.at(stall.until), stall.waiter);
            let (length, since) = (Period(stall.until - stall.from), findings.at(waiter.invoke));
            let what = format!(
                "free from {from} to {until}, for {length}, while client {} waited since {since} (request {})",
                waiter.client, waiter.request
            );
            findings.violation(Check::C5, lock.name, what);
        }
    }
}

/// A call affected by a fault may take until the fault is healed, plus the bound.
fn check_ended_in_time(history: &History<'_>, lock: &Lock<'_>, findings: &mut Findings) {
    let bounds = history.bounds;
    let bound = bounds.beats + bounds.claim_window + bounds.slack;
    for one in &lock.acquires {
        let over = one.invoke.saturating_add(one.wait);
        if one.end == AcquireEnd::Unknown(OPEN.to_owned()) || one.ret <= over.saturating_add(bound) {
            continue;
        }
        let touches = |begin: Nanos, end: Nanos| begin <= one.ret && end + bounds.slack >= one.invoke;
        let healed = history.faults.iter().filter(|fault| touches(fault.begin, fault.end)).map(|fault| fault.end).max();
        if one.ret > over.max(healed.unwrap_or(0)).saturating_add(bound) {
            let late = Period(one.ret - over);
            let (sent, over, ret) = (findings.at(one.invoke), findings.at(over), findings.at(one.ret));
            let what = format!(
                "request {} of client {}, sent at {sent} to wait until {over}, returned at {ret}, {late} after that",
                one.request, one.client
            );
            findings.violation(Check::C5, lock.name, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        checks::{builder::HistoryBuilder, check},
        history::{AcquireEnd, Guarantees, OPEN, Record},
        verdict::Check::C5,
    };

    /// Client 2 waits from 0.1 s; client 1 releases at 3 s; client 2 is granted the lock at `served`.
    fn served_at(served: u64) -> HistoryBuilder {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).renewed(1, 1, (1_800, 1_805), 3_680);
        let builder = builder.released(1, 1, (3_000, 3_005));
        builder.granted(2, "b", (100, served), 2).released(2, 2, (served + 10, served + 20))
    }

    #[test]
    fn left_after_the_run() {
        let with = |waiters: u64, held: bool| {
            let mut records = HistoryBuilder::new().granted(1, "a", (0, 5), 1).released(1, 1, (10, 12)).finish();
            for record in &mut records {
                if let Record::Final(end) = record {
                    (end.waiters, end.held) = (waiters, held);
                }
            }
            let found = check(&records).violations;
            found.into_iter().filter(|one| one.check == C5).map(|one| one.message).collect::<Vec<_>>()
        };
        assert_eq!(with(2, false), ["2 still wait after the run"]);
        assert_eq!(with(0, true), ["it is still held after the run"]);
        assert!(with(0, false).is_empty());
    }

    #[test]
    fn free_while_somebody_waits() {
        served_at(8_000).passes();
        served_at(8_100).violates(C5, "free from 3.005000 s to 8.100000 s, for 5.095000 s, while client 2 waited");
    }

    #[test]
    fn timed_out_at_a_free_lock() {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).released(1, 1, (1_000, 1_005));
        let builder = builder.ended(2, "b", (100, 9_100), AcquireEnd::TimedOut).wait(9_000);
        builder.violates(C5, "free from 1.100000 s to 9.100000 s");
    }

    #[test]
    fn an_end_unknown_to_the_server_takes_another_ttl() {
        let lost = |served: u64| {
            let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).lost(1, 1, 1_885, "deadline", None);
            builder.granted(2, "b", (100, served), 2).released(2, 2, (served + 10, served + 20))
        };
        lost(9_880).passes();
        lost(9_900).violates(C5, "free from 4.885000 s");
        let unknown = |served: u64| {
            let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).release_unknown(1, 1, (10, 510));
            builder.granted(2, "b", (100, served), 2).released(2, 2, (served + 10, served + 20))
        };
        unknown(9_880).passes();
        unknown(9_900).violates(C5, "free from 4.885000 s");
    }

    #[test]
    fn an_unknown_grant_may_hold_it() {
        let unknown = |end: AcquireEnd| served_at(8_100).ended(3, "c", (200, 4_000), end);
        unknown(AcquireEnd::Unknown("UNAVAILABLE".into())).passes();
        unknown(AcquireEnd::Dropped).passes();
        unknown(AcquireEnd::Refused("RESOURCE_EXHAUSTED".into())).violates(C5, "free from 3.005000 s");
    }

    #[test]
    fn a_fault_nearby_explains_it() {
        let guarantees = Guarantees::All;
        served_at(8_100).fault("sigkill-server", "server 1", (2_000, 2_500), guarantees).passes();
        served_at(8_100).fault("sigkill-server", "server 1", (8_090, 8_200), guarantees).passes();
        let builder = served_at(8_100).later(30_000).fault("sigkill-server", "server 1", (2_000, 2_500), guarantees);
        builder.violates(C5, "free from 33.005000 s");
    }

    #[test]
    fn a_late_waiter_waits_from_its_own_arrival() {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).released(1, 1, (10, 12));
        builder.granted(2, "b", (30_000, 33_000), 2).released(2, 2, (33_010, 33_020)).passes();
    }

    #[test]
    fn an_answer_that_came_too_late() {
        let builder = |ret: u64| {
            HistoryBuilder::new().ended(1, "a", (0, ret), AcquireEnd::Unknown("no answer".into())).wait(1_000)
        };
        builder(5_900).passes();
        builder(6_100).violates(C5, "to wait until 1.000000 s, returned at 6.100000 s, 5.100000 s after that");
        builder(6_100).fault("sigstop-redis", "redis", (900, 2_000), Guarantees::All).passes();
        // Its process ended at an unknown time: only the time at which that was noticed is known.
        HistoryBuilder::new().ended(1, "a", (0, 6_100), AcquireEnd::Unknown(OPEN.into())).wait(1_000).passes();
        builder(7_100).fault("sigstop-redis", "redis", (900, 2_000), Guarantees::All).violates(C5, "after that");
    }
}
