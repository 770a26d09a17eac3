//! Nodes that lost their memory, where so many did that the servers cannot continue by themselves.

use super::{Election, SIGHT_AGE_MAX, Seen, Sight, majority};
use tokio::time::Instant;

impl Election {
    /// The nodes that lost their memory of a partition, if no majority is left without them. None of a single node: the
    /// servers write what they have to it.
    pub(crate) fn forgotten_by(&self, partition: u16, now: Instant) -> Vec<usize> {
        let forgot = |sight: &Sight| {
            let seen = sight.partitions.get(usize::from(partition));
            now.duration_since(sight.at) < SIGHT_AGE_MAX && matches!(seen, Some(Seen::Stranger { .. }))
        };
        let nodes = self.nodes.iter().enumerate().filter(|(_, sight)| sight.as_ref().is_some_and(forgot));
        let (lost, all): (Vec<usize>, usize) = (nodes.map(|(node, _)| node).collect(), self.nodes.len());
        if all > 1 && all - lost.len() < majority(all) { lost } else { Vec::new() }
    }
}
