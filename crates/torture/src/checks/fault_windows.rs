//! When faults had an effect.

use super::index::{History, MEMORY};
use crate::history::{Fault, Guarantees, Nanos};

/// The periods in which a fault, or its consequences, may have affected the history.
pub(crate) struct FaultWindows {
    /// Disjoint, in order.
    windows: Vec<(Nanos, Nanos)>,
}

impl FaultWindows {
    /// A fault has an effect until the last lease that it may have touched is over, and the last request forgotten.
    /// Client misbehaviour (a dropped call, a duplicated request) lasts no time and affects nobody else.
    pub(crate) fn by(history: &History<'_>, counts: impl Fn(&Fault) -> bool) -> Self {
        let after = history.max_ttl + MEMORY + history.bounds.slack;
        Self::lasting(after, history.faults.iter().copied().filter(|fault| fault.begin < fault.end && counts(fault)))
    }

    /// Those of these faults, each with this much time after it. They are in the order of their beginnings.
    pub(crate) fn lasting<'a>(after: Nanos, faults: impl Iterator<Item = &'a Fault>) -> Self {
        let mut windows: Vec<(Nanos, Nanos)> = Vec::new();
        for fault in faults {
            let end = fault.end.max(fault.begin).saturating_add(after);
            match windows.last_mut() {
                Some(last) if fault.begin <= last.1 => last.1 = last.1.max(end),
                _ => windows.push((fault.begin, end)),
            }
        }
        Self { windows }
    }

    /// Whether no fault had an effect in this period.
    pub(crate) fn are_clear(&self, from: Nanos, to: Nanos) -> bool {
        let first = self.windows.partition_point(|(_, end)| *end < from);
        self.windows.get(first).is_none_or(|(begin, _)| *begin > to)
    }

    /// How much of this period is in the windows.
    pub(crate) fn overlap(&self, from: Nanos, to: Nanos) -> Nanos {
        self.windows.iter().map(|(begin, end)| to.min(*end).saturating_sub(from.max(*begin))).sum()
    }
}

impl History<'_> {
    /// The kind of the first fault between `from` and `to` after which the store may have lost data. A fault affects
    /// leases for as long as they may last.
    pub(crate) fn excuse(&self, from: Nanos, to: Nanos) -> Option<String> {
        let after = self.max_ttl + self.bounds.slack;
        let reaches = |fault: &&&Fault| {
            fault.guarantees == Guarantees::NotMemory
                && fault.begin <= to
                && fault.end.max(fault.begin).saturating_add(after) >= from
        };
        self.faults.iter().find(reaches).map(|fault| fault.kind.clone())
    }
}

/// Whether the fault hit this client. The target lists clients by number; without a number it hits all.
pub(crate) fn hits_client(fault: &Fault, client: u32) -> bool {
    let mut named =
        fault.target.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u32>().ok()).peekable();
    fault.kind.contains("client") && (named.peek().is_none() || named.any(|one| one == client))
}

/// Whether a client was killed.
pub(crate) fn is_kill_of_client(fault: &Fault) -> bool {
    fault.kind.starts_with("sigkill-client")
}
