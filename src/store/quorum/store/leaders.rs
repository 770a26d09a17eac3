//! The leaders of the partitions, as this server knows them, and what it does where it leads itself.

use super::QuorumStore;
use crate::{
    domain::{features::Features, time::StoreTime},
    store::quorum::{
        membership::{election::SILENCE_MAX, events::Servers, known::Known},
        nodes::client::NodeClient,
        paxos::ballot::ServerId,
        proposer::{delivery::Exit, role::Proposer, route::Route},
        rpc::messages::Frame,
    },
};
use std::collections::BTreeSet;
use tokio::time::Instant;

impl<C: NodeClient> QuorumStore<C> {
    /// Takes that another server leads a partition.
    pub(super) fn note_leader(&self, at: usize, known: Known) {
        let Some(part) = self.parts.get(at) else { return };
        let gave_way = part.proposer.lock().gives_way(known.ballot, self.clock.now(), &self.exit(at));
        self.parts.metrics.leads_lost.inc_by(u64::from(gave_way));
        let before = {
            let mut leader = part.leader.lock();
            let before = *leader;
            let is_newer = |before: Known| {
                before.ballot < known.ballot || before.ballot == known.ballot && before.at(known.heard) < known.time
            };
            if before.is_none_or(is_newer) {
                *leader = Some(known);
            }
            before
        };
        let is_another = before.is_none_or(|before| before.ballot < known.ballot);
        if is_another {
            // What the leader before had to tell may be lost with it.
            self.delivery.lost();
            // It may be known again after a while in which its hints went astray.
            let queued = part.local_waiters.lock().queued_at(known.ballot);
            self.look_again(queued);
        }
        if is_another || gave_way {
            self.parts.led_anew.notify_waiters();
        }
    }

    /// Forgets a leader that does not live any more. One that has just introduced itself may not have sent a heartbeat
    /// yet.
    pub(super) fn forget_dead(&self, at: usize, living: &BTreeSet<ServerId>) {
        let now = self.clock.now();
        let is_dead =
            |known: &mut Known| !living.contains(&known.ballot.server) && now.since(known.heard) >= SILENCE_MAX;
        self.parts[at].leader.lock().take_if(is_dead);
    }

    /// What a server does for a partition with each heartbeat.
    pub(super) fn look_after(&self, at: usize, servers: &Servers, now: Instant) {
        let part = &self.parts[at];
        part.local_waiters.lock().forget_dropped(now);
        if let Some(lead) = part.proposer.lock().lead() {
            let (exit, clock) = (self.exit(at), self.clock.now());
            lead.hear_of(servers.living.iter().copied(), clock, &exit);
            lead.found_dead(servers.dead.iter().copied(), clock);
            lead.gathers_only_of(&servers.gateways, Route::hash_of, clock, &exit);
            self.claim_again(at);
            return;
        }
        // The leader's request for the waiters may have been lost, or a call was queued just before it.
        let leader = *part.leader.lock();
        if let Some(known) = leader {
            self.present(at, known, false);
            self.claim_again(at);
        }
    }

    /// Begins to lead: the waiters of the leaders before come first. The caller has locked the share, so that no
    /// command comes between.
    pub(super) fn begin_to_lead(&self, at: usize, proposer: &mut Proposer, now: StoreTime, exit: &Exit<'_>) {
        let Some(lead) = proposer.lead() else { return };
        let (ballot, number) = (lead.ballot(), u16::try_from(at).unwrap_or(u16::MAX));
        self.parts.metrics.leads_begun.inc();
        let others = self.membership.election.lock().gateways(Instant::now());
        lead.gather(others.iter().copied(), now);
        if !others.is_empty() {
            // One of them may have left a moment ago.
            self.membership.heartbeat_soon.notify_waiters();
        }
        for server in others {
            self.delivery.transport.send(server, Frame::Gather { partition: number, ballot, now: lead.time(now) });
        }
        let own = self.parts[at].local_waiters.lock().present_to((ballot, Features::OWN), exit.since);
        lead.presents(self.delivery.me, (own, true), Route::hash_of, now, exit);
        self.parts[at].leader.lock().take_if(|known| known.ballot < ballot);
        self.delivery.lost();
        self.parts.led_anew.notify_waiters();
    }

    /// The partitions that this server leads. None while it hands one of them over.
    pub(super) fn led(&self) -> Option<Vec<u16>> {
        let mut led = Vec::new();
        for (number, part) in (0..).zip(self.parts.iter()) {
            match part.proposer.lock().lead() {
                Some(lead) if lead.hands_over() => return None,
                Some(_) => led.push(number),
                None => {}
            }
        }
        Some(led)
    }

    /// Begins to hand this partition over, but not to a server that did not take it over a moment ago, or that cannot
    /// read it.
    pub(super) fn begin_hand_over(&self, partition: u16, heir: ServerId) {
        let now = self.clock.now();
        let told = self.membership.election.lock().told(heir);
        let mut proposer = self.parts[usize::from(partition)].proposer.lock();
        if let Some(lead) = proposer.lead().filter(|lead| lead.may_hand_over(heir, now) && lead.is_readable_by(told)) {
            lead.begin_hand_over(heir, now);
        }
    }
}
