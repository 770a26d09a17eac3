//! What other servers understand, as their heartbeats say.

use super::Election;
use crate::{domain::features::Features, store::quorum::paxos::ballot::ServerId};
use tokio::time::Instant;

impl Election {
    /// What a server has told that it understands. One that was never seen has told nothing.
    pub(crate) fn told(&self, server: ServerId) -> Features {
        if server == self.me {
            return Features::OWN;
        }
        self.servers.get(&server).map_or(Features::NONE, |peer| peer.heartbeat.features)
    }

    /// How many of the servers that may live have not told these features, and how many there are, with this one.
    pub(crate) fn lacking(&self, features: Features, now: Instant) -> (usize, usize) {
        let others = self.servers.values().filter(|peer| peer.may_live(now) && !peer.heartbeat.left);
        let (lacking, others) = others.fold((0, 0), |(lacking, others), peer| {
            (lacking + usize::from(!features.are_among(peer.heartbeat.features)), others + 1)
        });
        (lacking, others + 1)
    }
}
