//! With one node: beats also show whether it has lost its memory, and then the servers settle who begins its next
//! membership.

use super::{
    QuorumStore,
    acceptor::Seen,
    alone::Situation,
    ballot::ServerId,
    frame::{OfStranger, Told},
    nodes::Carrier,
};
use crate::domain::time::StoreTime;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// The only node.
const NODE: usize = 0;

impl<C: Carrier> QuorumStore<C> {
    pub(super) fn has_one_node(&self) -> bool {
        self.mark.members.len() == 1
    }

    /// Takes what a beat that was sent at `asked` has seen of each partition.
    pub(super) fn sees(&self, seen: &[Seen], asked: StoreTime) {
        for (at, (part, seen)) in self.parts.iter().zip(seen).enumerate() {
            let mut share = part.share.lock();
            if share.sees(seen, [asked, self.clock.now()], &self.exit(at)) {
                self.metrics.leads_lost.inc();
            }
        }
    }

    /// Begins memberships of a node that lost its memory, as far as that is for this server to do by what all `told`.
    pub(super) async fn begin_memberships(&self, told: &[(ServerId, Told)]) {
        let mut by_partition: BTreeMap<u16, BTreeMap<ServerId, OfStranger>> = BTreeMap::new();
        for (server, told) in told {
            for of_stranger in &told.strangers {
                by_partition.entry(of_stranger.partition).or_default().insert(*server, *of_stranger);
            }
        }
        if by_partition.is_empty() {
            return;
        }
        // A server that does not know the node's clock leaves it to another one, or to its next beat.
        let Some(wall) = self.carrier.wall_clock(NODE).await else { return };
        for (partition, told) in by_partition {
            let at = usize::from(partition);
            let Some(part) = self.parts.get(at) else { continue };
            let mut share = part.share.lock();
            let (living, turn): (BTreeSet<ServerId>, _) = {
                let (election, now) = (self.election.lock(), Instant::now());
                (election.living(now).collect(), election.turn(partition, now))
            };
            let now = self.clock.now();
            let wall = wall.max(now.as_micros());
            let situation = Situation { now, told: &told, living: &living, turn, wall };
            if share.begins_membership(&situation, self.is_leaving(), &self.exit(at)) {
                self.begin_to_lead(at, &mut share, now);
            }
        }
        self.wake_all();
    }
}
