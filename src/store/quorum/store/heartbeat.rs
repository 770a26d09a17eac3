//! Heartbeats: announce this server to the others, and act on what theirs show.

use super::QuorumStore;
use crate::{
    domain::{features::Features, time::StoreTime},
    store::{
        content::Bytes,
        quorum::{
            membership::events::{Event, Own, events},
            nodes::client::NodeClient,
            paxos::{
                ballot::{ServerId, Stamp},
                node::{Mark, NodeRequest},
            },
            rpc::messages::Heartbeat,
        },
    },
};
use futures_util::future::join_all;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

/// The pause after a heartbeat that no node answered. Its connection may be made in a moment.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

impl<C: NodeClient> QuorumStore<C> {
    /// Sends heartbeats to one node. Never ends.
    pub(super) async fn heartbeat(&self, node: usize) {
        loop {
            let is_answered = self.heartbeat_once(node).await;
            let now = Instant::now();
            let until = if is_answered { self.membership.next_beat(now) } else { now + RETRY_PAUSE };
            // Nothing is lost if the heartbeat goes out at its time.
            let _ = timeout_at(until, self.membership.heartbeat_soon.notified()).await;
        }
    }

    /// One heartbeat to each node.
    pub async fn heartbeat_at_all(&self) {
        join_all((0..self.driver.nodes()).map(|node| self.heartbeat_once(node))).await;
    }

    async fn heartbeat_once(&self, node: usize) -> bool {
        let (sent, sent_at) = (Instant::now(), self.clock.now());
        let Mark { cluster, list, partitions, .. } = self.driver.mark;
        let (fresh, server) = (Stamp(Uuid::new_v4().as_u128()), self.delivery.me);
        let (payload, gone) =
            (self.own_heartbeat(self.clock.now()).encode().into(), self.membership.election.lock().gone(sent));
        let request = NodeRequest::Heartbeat { cluster, list, partitions, fresh, server, payload, gone };
        let Some((partitions, servers)) = self.driver.heartbeat(node, request, self).await else { return false };
        let read = |(server, payload): (ServerId, Bytes)| match Heartbeat::decode(&payload) {
            Ok(heartbeat) => Some((server, heartbeat)),
            Err(why) => {
                tracing::debug!(%why, "cannot read the heartbeat of another server");
                None
            }
        };
        let servers: Vec<_> = servers.into_iter().filter_map(read).collect();
        let heartbeats = if self.has_one_node() { servers.clone() } else { Vec::new() };
        if self.has_one_node() {
            self.sees(&partitions, sent_at);
        }
        let (now, clock) = (Instant::now(), self.clock.now());
        let comes_in_sight = self.membership.election.lock().saw(node, (sent, now, clock), partitions, servers);
        if comes_in_sight {
            self.membership.beats_since(sent);
        }
        self.act_on_heartbeats(now);
        if self.has_one_node() {
            self.note_loss(&heartbeats, (now, clock)).await;
        }
        true
    }

    /// What this server tells all others now.
    fn own_heartbeat(&self, now: StoreTime) -> Heartbeat {
        Heartbeat {
            count: self.membership.next_heartbeat(),
            watches: self.delivery.notices.is_watched(),
            leaves: self.membership.is_leaving(),
            left: self.membership.has_left(),
            leads: self.parts.iter().filter_map(|part| Some(part.proposer.lock().lead()?.led(now))).collect(),
            notices: self.delivery.transport.notices_sent(),
            strangers: self.parts.iter().filter_map(|part| part.proposer.lock().report()).collect(),
            features: Features::OWN,
        }
    }

    /// Acts on what heartbeats have shown.
    fn act_on_heartbeats(&self, now: Instant) {
        let (led, leaves) = (self.led(), self.membership.is_leaving());
        let own = Own { me: self.delivery.me, leads: led.as_deref(), leaves };
        let (events, servers) = events(&mut self.membership.election.lock(), self.driver.mark.partitions, &own, now);
        for event in events {
            match event {
                Event::Gone(server) => self.delivery.transport.forget(server),
                Event::Lives { server, count, watches, notices } => {
                    self.delivery.transport.watches(server, count, watches);
                    if self.delivery.transport.announced(server, count, notices, now) {
                        self.notices_missed(server);
                    }
                }
                Event::Led(at, known) => {
                    self.note_leader(at.into(), known);
                    self.look_after(at.into(), &servers, now);
                }
                Event::Unled(at) => {
                    self.forget_dead(at.into(), &servers.living);
                    self.look_after(at.into(), &servers, now);
                }
                Event::HandOver(at, heir) => self.begin_hand_over(at, heir),
            }
        }
        self.driver.wake_all();
    }
}
