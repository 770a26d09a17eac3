//! C5: no waiter is lost. After the run nobody waits or holds; every call ended when its wait was over; and where no
//! fault reaches, a free lock with a live waiter is given to somebody within poll + claim window + slack.

use super::{
    findings::{Findings, Span},
    free::stalls,
    index::{History, Lock},
    quiet::Troubled,
};
use crate::{
    history::{AcquireEnd, Nanos, OPEN},
    verdict::Check,
};

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    let troubled = Troubled::by(history, |_| true);
    for lock in &history.locks {
        for end in &lock.finals {
            if end.waiters > 0 {
                findings.wrong(Check::C5, lock.name, format!("{} still wait after the run", end.waiters));
            }
            if end.held {
                findings.wrong(Check::C5, lock.name, "it is still held after the run");
            }
        }
        ended_in_time(history, lock, findings);
        for stall in stalls(history, lock).into_iter().filter(|stall| troubled.spares(stall.from, stall.until)) {
            let (from, until, waiter) = (findings.at(stall.from), findings.at(stall.until), stall.waiter);
            let (length, since) = (Span(stall.until - stall.from), findings.at(waiter.invoke));
            let what = format!(
                "free from {from} to {until}, for {length}, while client {} waited since {since} (request {})",
                waiter.client, waiter.request
            );
            findings.wrong(Check::C5, lock.name, what);
        }
    }
}

/// A call that a fault touched may take until the fault is over and the bound after it.
fn ended_in_time(history: &History<'_>, lock: &Lock<'_>, findings: &mut Findings) {
    let bounds = history.bounds;
    let bound = bounds.poll + bounds.claim_window + bounds.slack;
    for one in &lock.acquires {
        let over = one.invoke.saturating_add(one.wait);
        if one.end == AcquireEnd::Unknown(OPEN.to_owned()) || one.ret <= over.saturating_add(bound) {
            continue;
        }
        let touches = |begin: Nanos, end: Nanos| begin <= one.ret && end + bounds.slack >= one.invoke;
        let healed = history.faults.iter().filter(|fault| touches(fault.begin, fault.end)).map(|fault| fault.end).max();
        if one.ret > over.max(healed.unwrap_or(0)).saturating_add(bound) {
            let late = Span(one.ret - over);
            let (sent, over, ret) = (findings.at(one.invoke), findings.at(over), findings.at(one.ret));
            let what = format!(
                "request {} of client {}, sent at {sent} to wait until {over}, returned at {ret}, {late} after that",
                one.request, one.client
            );
            findings.wrong(Check::C5, lock.name, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        checks::{check, story::Story},
        history::{AcquireEnd, Leaves, OPEN, Record},
        verdict::Check::C5,
    };

    /// Client 2 waits from 0.1 s on; client 1 gives back at 3 s; client 2 gets it at `served`.
    fn served_at(served: u64) -> Story {
        let story = Story::new().got(1, "a", (0, 5), 1).renewed(1, 1, (1_800, 1_805), 3_680);
        let story = story.released(1, 1, (3_000, 3_005));
        story.got(2, "b", (100, served), 2).released(2, 2, (served + 10, served + 20))
    }

    #[test]
    fn left_after_the_run() {
        let with = |waiters: u64, held: bool| {
            let mut records = Story::new().got(1, "a", (0, 5), 1).released(1, 1, (10, 12)).told();
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
        served_at(8_100).shows(C5, "free from 3.005000 s to 8.100000 s, for 5.095000 s, while client 2 waited");
    }

    #[test]
    fn timed_out_at_a_free_lock() {
        let story = Story::new().got(1, "a", (0, 5), 1).released(1, 1, (1_000, 1_005));
        let story = story.ended(2, "b", (100, 9_100), AcquireEnd::TimedOut).wait(9_000);
        story.shows(C5, "free from 1.100000 s to 9.100000 s");
    }

    #[test]
    fn an_end_that_nobody_told_the_server_of_takes_a_ttl_more() {
        let lost = |served: u64| {
            let story = Story::new().got(1, "a", (0, 5), 1).lost(1, 1, 1_885, "deadline", None);
            story.got(2, "b", (100, served), 2).released(2, 2, (served + 10, served + 20))
        };
        lost(9_880).passes();
        lost(9_900).shows(C5, "free from 4.885000 s");
        let unknown = |served: u64| {
            let story = Story::new().got(1, "a", (0, 5), 1).release_unknown(1, 1, (10, 510));
            story.got(2, "b", (100, served), 2).released(2, 2, (served + 10, served + 20))
        };
        unknown(9_880).passes();
        unknown(9_900).shows(C5, "free from 4.885000 s");
    }

    #[test]
    fn a_grant_that_nobody_knows_of_may_hold_it() {
        let unknown = |end: AcquireEnd| served_at(8_100).ended(3, "c", (200, 4_000), end);
        unknown(AcquireEnd::Unknown("UNAVAILABLE".into())).passes();
        unknown(AcquireEnd::Dropped).passes();
        unknown(AcquireEnd::Refused("RESOURCE_EXHAUSTED".into())).shows(C5, "free from 3.005000 s");
    }

    #[test]
    fn a_fault_nearby_explains_it() {
        let leaves = Leaves::All;
        served_at(8_100).fault("sigkill-server", "server 1", (2_000, 2_500), leaves).passes();
        served_at(8_100).fault("sigkill-server", "server 1", (8_090, 8_200), leaves).passes();
        let story = served_at(8_100).later(30_000).fault("sigkill-server", "server 1", (2_000, 2_500), leaves);
        story.shows(C5, "free from 33.005000 s");
    }

    #[test]
    fn a_late_waiter_waits_from_its_own_coming() {
        let story = Story::new().got(1, "a", (0, 5), 1).released(1, 1, (10, 12));
        story.got(2, "b", (30_000, 33_000), 2).released(2, 2, (33_010, 33_020)).passes();
    }

    #[test]
    fn an_answer_that_came_too_late() {
        let story =
            |ret: u64| Story::new().ended(1, "a", (0, ret), AcquireEnd::Unknown("no answer".into())).wait(1_000);
        story(5_900).passes();
        story(6_100).shows(C5, "to wait until 1.000000 s, returned at 6.100000 s, 5.100000 s after that");
        story(6_100).fault("sigstop-redis", "redis", (900, 2_000), Leaves::All).passes();
        // Its process ended, nobody knows when: all that is known is when that was noticed.
        Story::new().ended(1, "a", (0, 6_100), AcquireEnd::Unknown(OPEN.into())).wait(1_000).passes();
        story(7_100).fault("sigstop-redis", "redis", (900, 2_000), Leaves::All).shows(C5, "after that");
    }
}
