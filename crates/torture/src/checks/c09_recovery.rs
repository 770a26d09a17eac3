//! C9: the lock of a killed holder becomes free: the next live waiter is granted it within beats + claim window + slack
//! of the end of the lease, which is a TTL after the last renewal that the holder can have sent. Checked where no other
//! fault reaches.

use super::{
    fault_windows::{FaultWindows, is_kill_of_client},
    findings::{Findings, Period},
    free::stalls,
    index::History,
};
use crate::verdict::Check;

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    let windows = FaultWindows::by(history, |fault| !is_kill_of_client(fault));
    for lock in &history.locks {
        for stall in stalls(history, lock) {
            let Some(orphan) = stall.orphan.filter(|_| windows.are_clear(stall.from, stall.until)) else { continue };
            let (from, until, waiter) = (findings.at(stall.from), findings.at(stall.until), stall.waiter);
            let (length, since) = (Period(stall.until - stall.from), findings.at(waiter.invoke));
            let what = format!(
                "client {} was killed with {}; its lease was over by {from}, and until {until}, for {length}, client \
                 {} waited in vain (since {since}, request {})",
                orphan.client, orphan.token, waiter.client, waiter.request
            );
            findings.violation(Check::C9, lock.name, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        checks::builder::HistoryBuilder,
        history::Guarantees,
        verdict::Check::{C5, C9},
    };

    /// Client 1 is killed with its lease at 1 s; client 2 has waited since 0.1 s.
    fn killed(served: u64) -> HistoryBuilder {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).fault(
            "sigkill-client",
            "client 1",
            (1_000, 1_200),
            Guarantees::All,
        );
        builder.granted(2, "b", (100, served), 2).released(2, 2, (served + 10, served + 20))
    }

    #[test]
    fn the_lock_stays_stuck() {
        // Valid until 1.885 s; a TTL and the slack make 4.885 s; beats, claim window and slack 5 s more.
        killed(9_880).passes();
        killed(9_900).violates(C9, "client 1 was killed with 1795000000000001; its lease was over by 4.885000 s");
        killed(9_900).satisfies(C5);
    }

    #[test]
    fn somebody_else_held_it_in_between() {
        let builder = killed(13_000).granted(3, "c", (50, 2_100), 3).renewed(3, 3, (3_700, 3_705), 5_580);
        let builder = builder.renewed(3, 3, (5_500, 5_505), 9_000).released(3, 3, (8_000, 8_005));
        builder.satisfies(C9);
    }

    #[test]
    fn another_fault_explains_it() {
        killed(9_900).fault("partition", "server 1", (3_000, 3_100), Guarantees::All).passes();
    }

    #[test]
    fn the_lease_of_another_client_does_not_count() {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).released(1, 1, (1_100, 1_105));
        let builder = builder.fault("sigkill-client", "client 3", (1_000, 1_200), Guarantees::All);
        builder.granted(2, "b", (100, 9_900), 2).released(2, 2, (9_910, 9_920)).passes();
    }
}
