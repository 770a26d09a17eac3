//! Heartbeats: announce this server to the others, and observe which servers are alive and which of them lead.

use super::QuorumStore;
use crate::{
    domain::time::StoreTime,
    store::{
        content::Bytes,
        quorum::{
            membership::{election::SILENCE_MAX, known::Known},
            nodes::client::NodeClient,
            paxos::{
                ballot::{ServerId, Stamp},
                node::{Mark, NodeRequest},
            },
            proposer::{delivery::Exit, role::Proposer, route::Route},
            rpc::messages::{Frame, HEARTBEAT_PERIOD, Heartbeat},
        },
    },
};
use futures_util::future::join_all;
use std::{collections::BTreeSet, time::Duration};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

/// The pause after a heartbeat that no node answered. Its connection may be made in a moment.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// How long a server that leaves waits for others to take its partitions over.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(2);
/// How long its heartbeats may take.
const HEARTBEAT_TIME_MAX: Duration = Duration::from_millis(300);
/// How often it looks whether they have.
const LEAVE_PERIOD: Duration = Duration::from_millis(5);

impl<C: NodeClient> QuorumStore<C> {
    /// Sends heartbeats to one node. Never ends.
    pub(super) async fn heartbeat(&self, node: usize) {
        loop {
            let is_answered = self.heartbeat_once(node).await;
            let pause = if is_answered { HEARTBEAT_PERIOD } else { RETRY_PAUSE };
            // Nothing is lost if the heartbeat goes out at its time.
            let _ = timeout(pause, self.membership.heartbeat_soon.notified()).await;
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
        let Some((partitions, servers)) = self.driver.heartbeat(node, request).await else { return false };
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
        self.membership.election.lock().saw(node, (sent, now, clock), partitions, servers);
        self.look_around(now);
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
        }
    }

    /// Acts on what heartbeats have shown.
    fn look_around(&self, now: Instant) {
        let led = self.led();
        let (living, gateways, heartbeats, leaders, heirs) = {
            let mut election = self.membership.election.lock();
            election.forget_gone(now).into_iter().for_each(|server| self.delivery.transport.forget(server));
            let mine = |notices: &[(ServerId, u64)]| {
                notices.iter().find(|(server, _)| *server == self.delivery.me).map_or(0, |(_, sent)| *sent)
            };
            let living: BTreeSet<ServerId> = election.living(now).collect();
            let heartbeats: Vec<_> = election
                .heartbeats(now)
                .map(|(server, it)| (server, it.watches, it.count, mine(&it.notices)))
                .collect();
            let leaders: Vec<_> = (0..self.driver.mark.partitions).map(|at| election.leader(at, now)).collect();
            let heirs = led.map(|led| election.heirs(&led, self.membership.is_leaving(), now)).unwrap_or_default();
            (living, election.gateways(now).into_iter().collect(), heartbeats, leaders, heirs)
        };
        for (server, watches, count, sent) in heartbeats {
            self.delivery.transport.watches(server, count, watches);
            if self.delivery.transport.announced(server, count, sent, now) {
                self.notices_missed(server);
            }
        }
        for (at, known) in leaders.into_iter().enumerate() {
            match known {
                Some(known) => self.note_leader(at, known),
                None => self.forget_dead(at, &living),
            }
            self.look_after(at, &living, &gateways, now);
        }
        self.begin_hand_overs(heirs);
        self.driver.wake_all();
    }

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
            for call in part.local_waiters.lock().queued_at(known.ballot) {
                self.delivery.notices.look_again(call.request, call.attempt);
            }
        }
        if is_another || gave_way {
            self.parts.led_anew.notify_waiters();
        }
    }

    /// Forgets a leader that does not live any more. One that has just introduced itself may not have sent a heartbeat
    /// yet.
    fn forget_dead(&self, at: usize, living: &BTreeSet<ServerId>) {
        let now = self.clock.now();
        let is_dead =
            |known: &mut Known| !living.contains(&known.ballot.server) && now.since(known.heard) >= SILENCE_MAX;
        self.parts[at].leader.lock().take_if(is_dead);
    }

    /// What a server does for a partition with each heartbeat.
    fn look_after(&self, at: usize, living: &BTreeSet<ServerId>, gateways: &BTreeSet<ServerId>, now: Instant) {
        let part = &self.parts[at];
        part.local_waiters.lock().forget_dropped(now);
        if let Some(lead) = part.proposer.lock().lead() {
            let exit = self.exit(at);
            let clock = self.clock.now();
            lead.hear_of(living.iter().copied(), clock, &exit);
            lead.found_dead(self.membership.election.lock().dead(now), clock);
            lead.gathers_only_of(gateways, Route::hash_of, clock, &exit);
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

    /// Has the calls claim again whose last claim failed.
    fn claim_again(&self, at: usize) {
        let calls = self.parts[at].local_waiters.lock().take_to_claim();
        calls.into_iter().for_each(|call| self.delivery.notices.look_again(call.request, call.attempt));
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
        let own = self.parts[at].local_waiters.lock().present_to(ballot, exit.since);
        lead.presents(self.delivery.me, (own, true), Route::hash_of, now, exit);
        self.parts[at].leader.lock().take_if(|known| known.ballot < ballot);
        self.delivery.lost();
        self.parts.led_anew.notify_waiters();
    }

    /// Hands all partitions over, and leads none any more. Where nobody else is there to take one over, or does not in
    /// time, it just stops to lead. The other servers are told, so that they need not find out by its silence.
    pub async fn leave(&self) {
        self.membership.begin_to_leave();
        // Who leaves itself takes nothing over, and who came a moment ago may be the one that does.
        self.heartbeat_at_all_in_time().await;
        let until = Instant::now() + LEAVE_TIME_MAX;
        let mut hands_over = false;
        loop {
            let has_heir = self.begin_to_leave();
            hands_over |= has_heir;
            // A successor asks this server for its waiters, and waits for the answer before it serves anybody.
            let is_led = self.parts.iter().all(|part| part.leader.lock().is_some());
            let is_needed = self.parts.iter().any(|part| part.proposer.lock().is_needed());
            // Who was deposed a moment ago may be needed too.
            let is_over = if is_led { !is_needed } else { !hands_over };
            // What this server was asked to take over, it hands on.
            let now = self.clock.now();
            let campaigns = self.parts.iter().any(|part| part.proposer.lock().is_candidate(now));
            let may_come = self.membership.election.lock().may_come(Instant::now());
            if !has_heir && !campaigns && !may_come && is_over || until <= Instant::now() {
                break;
            }
            self.tend_once();
            if is_led && is_needed || may_come && !has_heir {
                // It sees the successor's first batch, or who came.
                self.heartbeat_at_all_in_time().await;
            }
            sleep(LEAVE_PERIOD).await;
        }
        for (at, part) in self.parts.iter().enumerate() {
            part.proposer.lock().resign(self.clock.now(), &self.exit(at));
        }
        // The waiters that it presents are to arrive.
        let sent = async {
            while !self.delivery.transport.is_idle() {
                sleep(LEAVE_PERIOD).await;
            }
        };
        let _ = timeout(HEARTBEAT_TIME_MAX, sent).await;
        self.membership.note_left();
        // Where that does not arrive, the others wait for their suspicion.
        self.heartbeat_at_all_in_time().await;
    }

    /// A heartbeat to all nodes, of which one may not answer.
    async fn heartbeat_at_all_in_time(&self) {
        let _ = timeout(HEARTBEAT_TIME_MAX, self.heartbeat_at_all()).await;
    }

    /// The partitions that this server leads. None while it hands one of them over: what is planned next depends on
    /// whether that is taken over.
    fn led(&self) -> Option<Vec<u16>> {
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

    /// Begins to hand these partitions over, but none to a server that did not take it over a moment ago.
    fn begin_hand_overs(&self, heirs: Vec<(u16, ServerId)>) {
        let now = self.clock.now();
        for (partition, heir) in heirs {
            let mut proposer = self.parts[usize::from(partition)].proposer.lock();
            if let Some(lead) = proposer.lead().filter(|lead| lead.may_hand_over(heir, now)) {
                lead.begin_hand_over(heir, now);
            }
        }
    }

    /// Begins to hand over all that this server leads. False if there is nothing, or nobody to take it.
    fn begin_to_leave(&self) -> bool {
        let now = self.clock.now();
        let led = (0..).zip(self.parts.iter()).filter(|(_, part)| part.proposer.lock().lead().is_some());
        let mine: Vec<u16> = led.map(|(number, _)| number).collect();
        let heirs = self.membership.election.lock().heirs(&mine, true, Instant::now());
        for (partition, heir) in &heirs {
            if let Some(lead) = self.parts[usize::from(*partition)].proposer.lock().lead() {
                lead.begin_hand_over(*heir, now);
            }
        }
        !heirs.is_empty()
    }
}
