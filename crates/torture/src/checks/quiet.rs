//! When faults reached.

use super::index::{History, MEMORY};
use crate::history::{Fault, Leaves, Nanos};

/// The stretches in which a fault, or what it left behind, may have had a hand in what happened.
pub(crate) struct Troubled {
    /// Disjoint, in order.
    stretches: Vec<(Nanos, Nanos)>,
}

impl Troubled {
    /// A fault reaches until the last lease that it may have touched is over, and the last request forgotten. What
    /// clients do all the time (a call dropped, a request sent twice) lasts no time at all, and holds nobody up.
    pub(crate) fn by(history: &History<'_>, counts: impl Fn(&Fault) -> bool) -> Self {
        let after = history.max_ttl + MEMORY + history.bounds.slack;
        let mut stretches: Vec<(Nanos, Nanos)> = Vec::new();
        for fault in history.faults.iter().filter(|fault| fault.begin < fault.end && counts(fault)) {
            let end = fault.end.max(fault.begin).saturating_add(after);
            match stretches.last_mut() {
                Some(last) if fault.begin <= last.1 => last.1 = last.1.max(end),
                _ => stretches.push((fault.begin, end)),
            }
        }
        Self { stretches }
    }

    /// Did no fault reach into these?
    pub(crate) fn spares(&self, from: Nanos, to: Nanos) -> bool {
        let first = self.stretches.partition_point(|(_, end)| *end < from);
        self.stretches.get(first).is_none_or(|(begin, _)| *begin > to)
    }
}

impl History<'_> {
    /// The kind of the first fault between `from` and `to` that takes away what `counts` asks for; leases that it
    /// touched count as long as they may last.
    pub(crate) fn excuse(&self, from: Nanos, to: Nanos, counts: impl Fn(Leaves) -> bool) -> Option<String> {
        let after = self.max_ttl + self.bounds.slack;
        let reaches = |fault: &&&Fault| {
            counts(fault.leaves) && fault.begin <= to && fault.end.max(fault.begin).saturating_add(after) >= from
        };
        self.faults.iter().find(reaches).map(|fault| fault.kind.clone())
    }
}

/// A fault after which the store may have forgotten.
pub(crate) fn forgets(leaves: Leaves) -> bool {
    leaves == Leaves::NotMemory
}

/// A fault after which leases may overlap.
pub(crate) fn overlaps(leaves: Leaves) -> bool {
    leaves != Leaves::All
}

/// Was this fault done to a client, and to this one? The target names clients by number; one that names none is all of
/// them.
pub(crate) fn hits_client(fault: &Fault, client: u32) -> bool {
    let mut named =
        fault.target.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u32>().ok()).peekable();
    fault.kind.contains("client") && (named.peek().is_none() || named.any(|one| one == client))
}

/// Was a client killed?
pub(crate) fn is_kill_of_client(fault: &Fault) -> bool {
    fault.kind.starts_with("sigkill-client")
}
