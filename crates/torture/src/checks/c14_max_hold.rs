//! C14: no lease lasts longer than its `max_hold` after its grant, whatever is renewed, and over changes of the leader.
//!
//! Time in which no server leads the lock does not count. So the bound is later by what the lease shares with faults of
//! servers, nodes and the links between them, and with the time of a beat after each, by which there is a leader again.

use super::{
    fault_windows::FaultWindows,
    findings::{Findings, Period},
    index::History,
};
use crate::{
    history::{Fault, Nanos},
    verdict::Check,
};

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    let windows = FaultWindows::lasting(
        history.bounds.beats,
        history.faults.iter().copied().filter(|fault| may_stop_a_leader(fault)),
    );
    for lock in &history.locks {
        for lease in &lock.leases {
            let known = lease.validity_known_at(Nanos::MAX);
            let (Some(bound), Some(until)) = (lease.max_hold(), known) else { continue };
            let due = lease.made_by() + bound + windows.overlap(lease.asked_from(), until);
            if until > due {
                let what = format!(
                    "client {} was granted {} by {} with a max_hold of {}, and it was valid until {}",
                    lease.client,
                    lease.token,
                    findings.at(lease.made_by()),
                    Period(bound),
                    findings.at(until),
                );
                findings.excusable(Check::C14, lock.name, what, history.excuse(lease.asked_from(), until));
            }
        }
    }
}

/// Not those of clients and of their links to servers (`front`), nor what clients do: a dropped call and a repeated
/// request last no time.
fn may_stop_a_leader(fault: &Fault) -> bool {
    let others = ["client", "front", "session-ended", "force-release", "script-flush"];
    let is_of_others = others.iter().any(|part| fault.kind.contains(part));
    !is_of_others && (fault.begin < fault.end || fault.kind.starts_with("clock"))
}

#[cfg(test)]
mod tests {
    use crate::{checks::builder::HistoryBuilder, history::Guarantees, verdict::Check::C14};

    /// Granted between 0 and 5 ms, with a max_hold of 3 s, and renewed until this time.
    fn renewed(until: u64) -> HistoryBuilder {
        let granted = HistoryBuilder::new().granted(1, "a", (0, 5), 1).max_hold(3_000);
        granted.renewed(1, 1, (1_500, 1_505), until).released(1, 1, (1_600, 1_605))
    }

    #[test]
    fn no_renewal_goes_beyond_it() {
        renewed(3_000).passes();
        renewed(3_020).violates(C14, "with a max_hold of 3.000000 s, and it was valid until 3.020000 s");
    }

    #[test]
    fn the_time_without_a_leader_does_not_count() {
        let fault = |renewed: HistoryBuilder, kind| renewed.fault(kind, "server 1", (1_000, 1_200), Guarantees::All);
        // 0.2 s of the fault, and a second.
        fault(renewed(4_150), "sigkill-server").satisfies(C14);
        fault(renewed(4_250), "sigkill-server").violates(C14, "with a max_hold");
        fault(renewed(3_020), "sigkill-client").violates(C14, "with a max_hold");
        fault(renewed(3_020), "front-delay").violates(C14, "with a max_hold");
        let late = renewed(3_020).fault("sigkill-server", "server 1", (3_100, 3_200), Guarantees::All);
        late.violates(C14, "with a max_hold");
    }
}
