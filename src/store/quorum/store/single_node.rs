//! With one node: heartbeats also detect that the node has lost its data, and the servers agree on the one that begins
//! its next membership.

use super::QuorumStore;
use crate::{
    domain::time::StoreTime,
    store::quorum::{
        nodes::client::NodeClient,
        paxos::{
            acceptor::Seen,
            ballot::ServerId,
            recovery::{MEMORY_WAIT, Situation, StrangerReport},
            wall_clocks::WallClocks,
        },
        proposer::role::Begun,
        rpc::messages::Heartbeat,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// The only node.
const NODE: usize = 0;

/// What a heartbeat showed at a node that has lost its memory. All of it is of one moment, so that no server counts as
/// silent because this one was busy.
#[derive(Debug)]
pub(super) struct Loss {
    /// What each server reported, by partition.
    reports: BTreeMap<u16, BTreeMap<ServerId, StrangerReport>>,
    living: BTreeSet<ServerId>,
    /// How long this server lets others go first, by partition.
    turns: BTreeMap<u16, Duration>,
    /// When the reply came, on the store's clock.
    at: StoreTime,
    /// This server's wall clock then, and the node's.
    clocks: WallClocks,
}

impl<C: NodeClient> QuorumStore<C> {
    pub(super) fn has_one_node(&self) -> bool {
        self.driver.nodes() == 1
    }

    /// Takes what a heartbeat that was sent at `sent` has seen of each partition.
    pub(super) fn sees(&self, seen: &[Seen], sent: StoreTime) {
        for (at, (part, seen)) in self.parts.iter().zip(seen).enumerate() {
            let mut proposer = part.proposer.lock();
            if proposer.sees(seen, sent, self.clock.now(), &self.exit(at)) {
                self.parts.metrics.leads_lost.inc();
            }
        }
    }

    /// Takes what all have reported of a loss, by a heartbeat whose reply came at `now`.
    pub(super) async fn note_loss(&self, servers: &[(ServerId, Heartbeat)], (now, at): (Instant, StoreTime)) {
        let mut reports: BTreeMap<u16, BTreeMap<ServerId, StrangerReport>> = BTreeMap::new();
        for (server, heartbeat) in servers {
            for report in &heartbeat.strangers {
                reports.entry(report.partition).or_default().insert(*server, *report);
            }
        }
        if reports.is_empty() {
            self.loss.send_if_modified(|loss| loss.take().is_some());
            return;
        }
        let (living, turns) = {
            let election = self.membership.election.lock();
            (
                election.living(now).collect(),
                reports.keys().map(|number| (*number, election.turn(*number, now))).collect(),
            )
        };
        // A server that does not know the node's clock leaves it to another one, or to its next heartbeat.
        if let Some(wall) = self.driver.client.wall_clock(NODE).await {
            let clocks = WallClocks::of(self.clock.now(), [wall]);
            let is_known =
                self.loss.send_replace(Some(Arc::new(Loss { reports, living, turns, at, clocks }))).is_some();
            if !is_known && clocks.apart() > MEMORY_WAIT {
                tracing::warn!(
                    differ_by = ?clocks.apart(),
                    "the clocks of redis and this server differ: synchronize them. Partitions that redis lost and no \
                     server has stay unavailable for that long, so that tokens rise"
                );
            }
        }
    }

    /// Begins memberships of a node that lost its memory, as far as that is for this server to do. Never ends. Between
    /// two of them it lets heartbeats through: with many locks all of them take seconds.
    pub(super) async fn begin_memberships(&self) {
        let mut losses = self.loss.subscribe();
        loop {
            // There is no error: this store has the sender.
            let _ = losses.changed().await;
            let (mut recalled, mut kept) = (0, 0);
            for partition in 0..self.driver.mark.partitions {
                // The newest.
                let Some(loss) = losses.borrow_and_update().clone() else { break };
                match self.begin_membership(partition, &loss) {
                    Begun::Nothing => {}
                    Begun::Kept => kept += 1,
                    Begun::Recalled => {
                        recalled += 1;
                        self.driver.wake_all();
                        tokio::task::yield_now().await;
                    }
                }
            }
            self.driver.wake_all();
            if recalled > 0 {
                tracing::warn!(partitions = recalled, "redis lost its memory: this server writes its partitions back");
            }
            if kept > 0 {
                tracing::warn!(
                    partitions = kept,
                    "redis lost its memory, and no server has these partitions: they continue with what redis kept \
                     and with higher tokens; locks that redis forgot are free"
                );
            }
        }
    }

    fn begin_membership(&self, partition: u16, loss: &Loss) -> Begun {
        let (at, living) = (usize::from(partition), &loss.living);
        let (Some(part), Some(reports), Some(turn)) =
            (self.parts.get(at), loss.reports.get(&partition), loss.turns.get(&partition))
        else {
            return Begun::Nothing;
        };
        let situation = Situation { now: loss.at, reports, living, turn: *turn, clocks: loss.clocks };
        let mut proposer = part.proposer.lock();
        let exit = self.exit(at);
        let now = self.clock.now();
        let begun = proposer.begins_membership(&situation, (self.membership.is_leaving(), now), &exit);
        if begun == Begun::Recalled {
            self.begin_to_lead(at, &mut proposer, now, &exit);
        }
        begun
    }
}
