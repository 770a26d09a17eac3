//! Failure detection and candidacy: the living servers, the leaders, and the time at which this server becomes a
//! candidate, from what heartbeats show.
//!
//! Nothing here makes the store safe: ballots do. A wrong suspicion costs a change of the leader, and a server that
//! reads a minority of the nodes suspects nobody, so it deposes nobody either.

mod features;
mod forgotten;
mod heirs;
#[cfg(test)]
mod tests;

use super::{known::Known, shares::weight};
use crate::{
    domain::time::StoreTime,
    store::quorum::{
        paxos::{
            acceptor::Seen,
            ballot::{Ballot, Position, ServerId, majority},
        },
        rpc::messages::{HEARTBEAT_PERIOD, Heartbeat, Led},
    },
};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// A partition whose leader has written nothing for so long has none: an idle one writes an empty batch with each
/// heartbeat. A server whose heartbeats have stopped for so long does not live.
pub(crate) const SILENCE_MAX: Duration = Duration::from_millis(1_200);
/// Servers that want to lead campaign one after the other, so far apart that each has seen by its heartbeats whether
/// the one before it campaigns: else it would depose that one.
const RANK_PAUSE: Duration = Duration::from_millis(400);
const _: () = assert!(HEARTBEAT_PERIOD.as_millis() < RANK_PAUSE.as_millis());
/// What a node showed so long ago does not count any more.
const SIGHT_AGE_MAX: Duration = Duration::from_millis(900);
/// The heartbeat of a server that does not live is deleted at the nodes after so much silence.
const GONE_AFTER: Duration = Duration::from_secs(30);
/// A server that lives is seen to send a heartbeat again within this time after it was seen first.
const KNOWN_AFTER: Duration = Duration::from_millis(900);
/// What a server has told others before its last heartbeat may come so much later than that: it takes another way.
const LAST_WORDS_TIME_MAX: Duration = Duration::from_millis(100);
/// A server whose heartbeats were seen at a majority of the nodes so long ago is late with the next one.
const LATE_AFTER: Duration = Duration::from_millis(800);
/// A partition in which nothing happened for so long has no leader, and none is about to come: somebody has to mend it.
const LEADERLESS_AFTER: Duration = Duration::from_secs(5);
/// A server gets no partition handed over before it has lived for so long.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// What this server has seen of nodes, servers and partitions.
#[derive(Debug)]
pub(crate) struct Election {
    me: ServerId,
    /// Since when this server has seen some node all the time. What happened before may have passed it by.
    looks_since: Instant,
    nodes: Vec<Option<Sight>>,
    servers: BTreeMap<ServerId, Peer>,
    partitions: Vec<Reached>,
}

/// What a node showed last.
#[derive(Debug)]
struct Sight {
    /// Since when heartbeats have gone to it without a long pause.
    since: Instant,
    /// When the last of them was sent.
    at: Instant,
    partitions: Vec<Seen>,
    /// When its batch, or its promise to another server, was seen to rise last, for each partition.
    rose: Vec<Instant>,
}

/// Another server, or this one.
#[derive(Debug)]
struct Peer {
    heartbeat: Heartbeat,
    /// When that was heard, on the store's clock.
    clock: StoreTime,
    first_seen: Instant,
    /// Since when it lives without a long silence.
    lives_since: Instant,
    /// When its count was seen to rise last. Never, if it died long ago.
    heard: Option<Instant>,
    /// The count that each node showed last, and when that was seen to rise.
    shown: Vec<(u64, Option<Instant>)>,
    /// When it handed a partition over to this server last.
    gave: Option<Instant>,
    /// When it was seen to leave. Not if it had left before it was seen first: nothing of it is under way then.
    left: Option<Instant>,
}

impl Peer {
    fn lives(&self, now: Instant) -> bool {
        self.heard.is_some_and(|heard| now.duration_since(heard) < SILENCE_MAX)
    }

    /// The same of one that was seen first a moment ago, too: it may have waiters already.
    fn may_live(&self, now: Instant) -> bool {
        let is_young = self.heard.is_none() && now.duration_since(self.first_seen) < KNOWN_AFTER;
        self.lives(now) || is_young
    }

    /// Whether it has reached a majority of the nodes within this time, so that it can lead.
    fn reaches_majority(&self, within: Duration, now: Instant) -> bool {
        let rose = self.shown.iter().filter_map(|(_, rose)| *rose);
        rose.filter(|rose| now.duration_since(*rose) < within).count() >= majority(self.shown.len())
    }

    /// For how long nothing new of it was seen.
    fn silent_for(&self, now: Instant) -> Duration {
        now.duration_since(self.heard.unwrap_or(self.first_seen))
    }

    /// Whether it said that it leaves, and leads this partition no more.
    fn has_left(&self, partition: u16) -> bool {
        self.heartbeat.leaves && !self.heartbeat.leads.iter().any(|led| led.partition == partition)
    }
}

/// How far a partition is.
#[derive(Clone, Copy, Debug)]
struct Reached {
    /// The highest batch that was seen.
    accepted: Position,
    /// The highest promise to another server.
    promised: Ballot,
}

impl Election {
    /// Nothing is seen yet.
    pub(crate) fn new(me: ServerId, nodes: usize, partitions: u16, now: Instant) -> Self {
        let reached = Reached { accepted: Position::default(), promised: Ballot::default() };
        Self {
            me,
            looks_since: now,
            nodes: (0..nodes).map(|_| None).collect(),
            servers: BTreeMap::new(),
            partitions: vec![reached; usize::from(partitions)],
        }
    }

    /// Takes what a node answered at `now`, when the store's clock showed `clock`, to a heartbeat that was sent at
    /// `sent`. Returns whether the node was out of sight before.
    pub(crate) fn saw(
        &mut self,
        node: usize,
        (sent, now, clock): (Instant, Instant, StoreTime),
        partitions: Vec<Seen>,
        servers: Vec<(ServerId, Heartbeat)>,
    ) -> bool {
        for (server, heartbeat) in servers.into_iter().filter(|(server, _)| *server != self.me) {
            let Some(peer) = self.servers.get_mut(&server) else {
                let mut shown = vec![(0, None); self.nodes.len()];
                shown[node] = (heartbeat.count, None);
                self.servers.insert(
                    server,
                    Peer {
                        heartbeat,
                        clock,
                        first_seen: now,
                        lives_since: now,
                        heard: None,
                        shown,
                        gave: None,
                        left: None,
                    },
                );
                continue;
            };
            match &mut peer.shown[node] {
                // The first time that it is shown there, it may be old.
                shown @ (0, _) => *shown = (heartbeat.count, None),
                (count, rose) if *count < heartbeat.count => (*count, *rose) = (heartbeat.count, Some(now)),
                _ => {}
            }
            if peer.heartbeat.count < heartbeat.count {
                if peer.silent_for(now) >= SILENCE_MAX {
                    peer.lives_since = now;
                }
                (peer.heartbeat, peer.clock, peer.heard) = (heartbeat, clock, Some(now));
                if peer.heartbeat.left {
                    peer.left.get_or_insert(now);
                }
            }
        }
        for (reached, seen) in self.partitions.iter_mut().zip(&partitions) {
            let Seen::Votes { promised, accepted } = *seen else { continue };
            reached.accepted = reached.accepted.max(accepted);
            // Somebody else is about to lead.
            if promised.server != self.me && promised > reached.promised.max(reached.accepted.ballot) {
                reached.promised = promised;
            }
        }
        if !self.sees_a_node(sent) {
            self.looks_since = now;
        }
        let before = self.nodes[node].take();
        let rose = partitions.iter().enumerate().map(|(at, seen)| {
            let before = before.as_ref().and_then(|sight| Some((sight.partitions.get(at)?, *sight.rose.get(at)?)));
            before.filter(|(before, _)| !self.rises(before, seen)).map_or(now, |(_, rose)| rose)
        });
        let rose = rose.collect::<Vec<_>>();
        let is_kept_in_sight = |sight: &Sight| sent.duration_since(sight.at) < SIGHT_AGE_MAX;
        let since = before.filter(is_kept_in_sight).map_or(sent, |sight| sight.since);
        self.nodes[node] = Some(Sight { since, at: sent, partitions, rose });
        since == sent
    }

    /// Whether a node shows that somebody leads, or that another server is about to.
    fn rises(&self, before: &Seen, seen: &Seen) -> bool {
        match (before, seen) {
            (
                Seen::Votes { promised: promised_before, accepted: accepted_before },
                Seen::Votes { promised, accepted },
            ) => accepted > accepted_before || (promised.server != self.me && promised > promised_before),
            // It votes again.
            (_, Seen::Votes { .. }) => true,
            _ => false,
        }
    }

    /// Notes that a server handed a partition over.
    pub(crate) fn gave(&mut self, server: ServerId, now: Instant) {
        if let Some(peer) = self.servers.get_mut(&server) {
            peer.gave = Some(now);
        }
    }

    /// The servers that live, this one first.
    pub(crate) fn living(&self, now: Instant) -> impl Iterator<Item = ServerId> {
        let others = self.servers.iter().filter(move |(_, peer)| peer.lives(now));
        std::iter::once(self.me).chain(others.map(|(server, _)| *server))
    }

    /// The gateways: the other servers that calls may wait on, or did a moment ago. One that has left is not waited
    /// for, which it says with its last heartbeat: until then it presents the queue positions that it keeps.
    pub(crate) fn gateways(&self, now: Instant) -> Vec<ServerId> {
        let is_heard_out = |left: Instant| now.duration_since(left) >= LAST_WORDS_TIME_MAX;
        let has_left = |peer: &Peer| peer.heartbeat.left && peer.left.is_none_or(is_heard_out);
        let gateways = self.servers.iter().filter(|(_, peer)| peer.may_live(now) && !has_left(peer));
        gateways.map(|(server, _)| *server).collect()
    }

    /// The last heartbeat of each server that lives.
    pub(crate) fn heartbeats(&self, now: Instant) -> impl Iterator<Item = (ServerId, &Heartbeat)> {
        let living = self.servers.iter().filter(move |(_, peer)| peer.lives(now));
        living.map(|(server, peer)| (*server, &peer.heartbeat))
    }

    /// The servers whose heartbeats the nodes may forget. A server that was away itself has to look for as long first.
    pub(crate) fn gone(&self, now: Instant) -> Vec<ServerId> {
        if !self.sees_a_node(now) || now.duration_since(self.looks_since) < GONE_AFTER {
            return Vec::new();
        }
        self.servers.iter().filter(|(_, peer)| peer.silent_for(now) >= GONE_AFTER).map(|(server, _)| *server).collect()
    }

    /// The servers that do not live, as far as this one can tell: it has looked for all the time in which they were
    /// silent.
    pub(crate) fn dead(&self, now: Instant) -> impl Iterator<Item = ServerId> {
        let has_looked = self.sees_a_node(now) && now.duration_since(self.looks_since) >= SILENCE_MAX;
        let dead = self.servers.iter().filter(move |(_, peer)| has_looked && peer.silent_for(now) >= SILENCE_MAX);
        dead.map(|(server, _)| *server)
    }

    /// Whether a node was seen lately.
    fn sees_a_node(&self, now: Instant) -> bool {
        self.nodes.iter().flatten().any(|sight| now.duration_since(sight.at) < SIGHT_AGE_MAX)
    }

    /// Forgets these servers.
    pub(crate) fn forget_gone(&mut self, now: Instant) -> Vec<ServerId> {
        let gone = self.gone(now);
        for server in &gone {
            self.servers.remove(server);
        }
        gone
    }

    /// Whether this server is to campaign for the lead of a partition.
    pub(crate) fn is_due(&self, partition: u16, now: Instant) -> bool {
        let is_free = self.is_led_by_nobody(partition);
        // A leader that is silent does not campaign for what it leads, so nobody waits for its turn.
        let led_by = (!is_free).then(|| self.partitions[usize::from(partition)].accepted.ballot.server);
        let pause = RANK_PAUSE * self.rank(partition, led_by, now);
        // A leader that writes to a minority only has lost the others, and answers nobody.
        let silent = self.nodes.iter().flatten().filter(|sight| {
            let Some(rose) = sight.rose.get(usize::from(partition)) else { return false };
            // Servers that start at the same time see one another with their second heartbeats. Before that each would
            // campaign for all that is free, and depose the one that had begun a moment earlier.
            let knows_others = sight.since + HEARTBEAT_PERIOD;
            let suspects = if is_free { knows_others.max(*rose) } else { *rose + SILENCE_MAX };
            Self::votes(sight, partition, now) && suspects + pause <= now && (!is_free || sight.at >= knows_others)
        });
        silent.count() >= majority(self.nodes.len())
    }

    /// Whether a majority of the nodes answered lately.
    pub(crate) fn hears_majority(&self, now: Instant) -> bool {
        let is_fresh = |sight: &&Sight| now.duration_since(sight.at) < SIGHT_AGE_MAX;
        self.nodes.iter().flatten().filter(is_fresh).count() >= majority(self.nodes.len())
    }

    /// Whether a node was seen lately to vote in a partition.
    fn votes(sight: &Sight, partition: u16, now: Instant) -> bool {
        now.duration_since(sight.at) < SIGHT_AGE_MAX
            && matches!(sight.partitions.get(usize::from(partition)), Some(Seen::Votes { .. }))
    }

    /// Whether it is certain that nobody leads, or is about to, without waiting: nobody ever did, or the leader has
    /// left, or died so long ago that its heartbeats have been deleted.
    fn is_led_by_nobody(&self, partition: u16) -> bool {
        let Reached { accepted, promised } = self.partitions[usize::from(partition)];
        let has_left = |server| self.servers.get(&server).is_none_or(|peer| peer.has_left(partition));
        let is_over = |Ballot { round, server }| round == 0 || (server != self.me && has_left(server));
        is_over(accepted.ballot) && is_over(promised)
    }

    /// For how long this server lets those campaign first that are before it in the order of the election.
    pub(crate) fn turn(&self, partition: u16, now: Instant) -> Duration {
        RANK_PAUSE * self.rank(partition, None, now)
    }

    /// How many servers but this one campaign before this server. One that was seen first a moment ago may live.
    fn rank(&self, partition: u16, but: Option<ServerId>, now: Instant) -> u32 {
        let mine = weight(self.me, partition);
        let may_campaign = |peer: &Peer| peer.silent_for(now) < SILENCE_MAX && !peer.heartbeat.leaves;
        let is_before = |server: ServerId| Some(server) != but && weight(server, partition) > mine;
        let before = self.servers.iter().filter(|(server, peer)| is_before(**server) && may_campaign(peer));
        u32::try_from(before.count()).unwrap_or(u32::MAX)
    }

    /// Whether a server came that this one will know in a moment, and that can lead then.
    pub(crate) fn may_come(&self, now: Instant) -> bool {
        let is_known = |peer: &Peer| peer.lives(now) && peer.reaches_majority(SILENCE_MAX, now);
        let came = |peer: &Peer| !peer.heartbeat.leaves && now.duration_since(peer.first_seen) < SILENCE_MAX;
        self.servers.values().any(|peer| came(peer) && !is_known(peer))
    }

    /// Notes that a server leaves, before its heartbeats say so.
    pub(crate) fn leaves(&mut self, server: ServerId) {
        if let Some(peer) = self.servers.get_mut(&server) {
            peer.heartbeat.leaves = true;
        }
    }

    /// The leader of a partition by the heartbeats of living servers; of several, the one with the highest ballot.
    pub(crate) fn leader(&self, partition: u16, now: Instant) -> Option<Known> {
        let living = self.servers.iter().filter(|(_, peer)| peer.lives(now));
        let leads = living.filter_map(|(server, peer)| {
            let Led { round, now: time, .. } = peer.heartbeat.leads.iter().find(|led| led.partition == partition)?;
            Some(Known { ballot: Ballot { round: *round, server: *server }, time: *time, heard: peer.clock })
        });
        leads.max_by_key(|known| known.ballot)
    }

    /// The highest ballot that was seen in a partition.
    pub(crate) fn highest(&self, partition: u16) -> Ballot {
        let reached = &self.partitions[usize::from(partition)];
        reached.accepted.ballot.max(reached.promised)
    }
}
