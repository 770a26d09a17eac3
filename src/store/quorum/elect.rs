//! Who lives, who leads, and when this server asks for a lead itself: from what beats show.
//!
//! Nothing here makes the store safe: ballots do. A wrong suspicion costs a change of the leader, and a server that
//! reads a minority of the nodes suspects nobody, so it deposes nobody either.

use super::{
    acceptor::Seen,
    ballot::{Ballot, Position, ServerId, majority},
    frame::{Led, Told},
};
use crate::domain::time::StoreTime;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

/// How often a server tells each node that it lives, and looks what the node has.
pub(super) const BEAT_PERIOD: Duration = Duration::from_millis(300);
/// A partition whose leader has written nothing for so long has none: an idle one writes an empty batch each 300 ms. A
/// server whose beats have stopped for so long does not live.
pub(super) const SILENCE_MAX: Duration = Duration::from_millis(1_200);
/// Servers that want to lead ask one after the other, so far apart, so that they do not depose each other.
const RANK_PAUSE: Duration = Duration::from_millis(200);
/// What a node showed so long ago does not count any more.
const SIGHT_AGE_MAX: Duration = Duration::from_millis(900);
/// What a server told that does not live is deleted at the nodes after so much silence.
const GONE_AFTER: Duration = Duration::from_secs(30);
/// A server gets no partition handed over before it has lived for so long.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// What this server has seen of nodes, servers and partitions.
#[derive(Debug)]
pub(super) struct Election {
    me: ServerId,
    began: Instant,
    nodes: Vec<Option<Sight>>,
    servers: BTreeMap<ServerId, Peer>,
    partitions: Vec<Progress>,
}

/// What a node showed last.
#[derive(Debug)]
struct Sight {
    /// When it was asked.
    at: Instant,
    partitions: Vec<Seen>,
}

/// Another server, or this one.
#[derive(Debug)]
struct Peer {
    told: Told,
    /// When that was heard, on the store's clock.
    clock: StoreTime,
    first_seen: Instant,
    /// When its count was seen to rise last. Never, if it died long ago.
    heard: Option<Instant>,
}

impl Peer {
    fn lives(&self, now: Instant) -> bool {
        self.heard.is_some_and(|heard| now.duration_since(heard) < SILENCE_MAX)
    }

    /// For how long nothing new of it was seen.
    fn silent_for(&self, now: Instant) -> Duration {
        now.duration_since(self.heard.unwrap_or(self.first_seen))
    }

    /// Whether it said that it leaves, and leads this partition no more.
    fn has_left(&self, partition: u16) -> bool {
        self.told.leaves && !self.told.leads.iter().any(|led| led.partition == partition)
    }
}

/// How far a partition is.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// The highest batch that was seen.
    accepted: Position,
    /// The highest promise to another server.
    promised: Ballot,
    /// When one of these was seen to rise.
    rose: Instant,
}

/// A partition's leader, as it told, and when that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Its ballot.
    pub(super) ballot: Ballot,
    /// The partition's time when the leader told, so not ahead of it.
    pub(super) time: StoreTime,
    /// When this was heard, on the store's clock of this server.
    pub(super) heard: StoreTime,
}

impl Known {
    /// The partition's time when the store's clock of this server shows `now`: not ahead of the leader's.
    pub(super) fn at(self, now: StoreTime) -> StoreTime {
        self.time.after(now.since(self.heard))
    }
}

impl Election {
    /// Nothing is seen yet.
    pub(super) fn new(me: ServerId, nodes: usize, partitions: u16, now: Instant) -> Self {
        let progress = Progress { accepted: Position::default(), promised: Ballot::default(), rose: now };
        Self {
            me,
            began: now,
            nodes: (0..nodes).map(|_| None).collect(),
            servers: BTreeMap::new(),
            partitions: vec![progress; usize::from(partitions)],
        }
    }

    /// Takes what a node answered at `now`, when the store's clock showed `clock`, to a beat that was sent at `asked`.
    pub(super) fn saw(
        &mut self,
        node: usize,
        (asked, now, clock): (Instant, Instant, StoreTime),
        partitions: Vec<Seen>,
        servers: Vec<(ServerId, Told)>,
    ) {
        for (server, told) in servers.into_iter().filter(|(server, _)| *server != self.me) {
            match self.servers.get_mut(&server) {
                Some(peer) if peer.told.count >= told.count => {}
                Some(peer) => (peer.told, peer.clock, peer.heard) = (told, clock, Some(now)),
                None => {
                    self.servers.insert(server, Peer { told, clock, first_seen: now, heard: None });
                }
            }
        }
        for (progress, seen) in self.partitions.iter_mut().zip(&partitions) {
            let Seen::Votes { promised, accepted } = *seen else { continue };
            if accepted > progress.accepted {
                (progress.accepted, progress.rose) = (accepted, now);
            }
            // Somebody else is about to lead.
            if promised.server != self.me && promised > progress.promised.max(progress.accepted.ballot) {
                (progress.promised, progress.rose) = (promised, now);
            }
        }
        self.nodes[node] = Some(Sight { at: asked, partitions });
    }

    /// The servers that live, this one first.
    pub(super) fn living(&self, now: Instant) -> impl Iterator<Item = ServerId> {
        let others = self.servers.iter().filter(move |(_, peer)| peer.lives(now));
        std::iter::once(self.me).chain(others.map(|(server, _)| *server))
    }

    /// The other servers through which calls may wait. One that leaves has ended those that waited through it.
    pub(super) fn carriers(&self, now: Instant) -> Vec<ServerId> {
        let carriers = self.servers.iter().filter(|(_, peer)| peer.lives(now) && !peer.told.leaves);
        carriers.map(|(server, _)| *server).collect()
    }

    /// What a server that lives told last.
    pub(super) fn told(&self, now: Instant) -> impl Iterator<Item = (ServerId, &Told)> {
        let living = self.servers.iter().filter(move |(_, peer)| peer.lives(now));
        living.map(|(server, peer)| (*server, &peer.told))
    }

    /// The servers whose beats the nodes may forget.
    pub(super) fn gone(&self, now: Instant) -> Vec<ServerId> {
        self.servers.iter().filter(|(_, peer)| peer.silent_for(now) >= GONE_AFTER).map(|(server, _)| *server).collect()
    }

    /// Forgets these servers.
    pub(super) fn forget_gone(&mut self, now: Instant) -> Vec<ServerId> {
        let gone = self.gone(now);
        for server in &gone {
            self.servers.remove(server);
        }
        gone
    }

    /// Whether this server is to ask for the lead of a partition.
    pub(super) fn is_due(&self, partition: u16, now: Instant) -> bool {
        let progress = &self.partitions[usize::from(partition)];
        let voting = self.nodes.iter().filter(|node| self.votes(node.as_ref(), partition, now)).count();
        if voting < majority(self.nodes.len()) {
            return false;
        }
        let suspected = if self.is_led_by_nobody(partition) { self.began } else { progress.rose + SILENCE_MAX };
        suspected + RANK_PAUSE * self.rank(partition, now) <= now
    }

    /// Whether a majority of the nodes answered lately.
    pub(super) fn hears_majority(&self, now: Instant) -> bool {
        let is_fresh = |sight: &&Sight| now.duration_since(sight.at) < SIGHT_AGE_MAX;
        self.nodes.iter().flatten().filter(is_fresh).count() >= majority(self.nodes.len())
    }

    /// Whether a node was seen lately to vote in a partition.
    fn votes(&self, node: Option<&Sight>, partition: u16, now: Instant) -> bool {
        node.is_some_and(|sight| {
            now.duration_since(sight.at) < SIGHT_AGE_MAX
                && matches!(sight.partitions.get(usize::from(partition)), Some(Seen::Votes { .. }))
        })
    }

    /// Whether it is certain that nobody leads, or is about to, without waiting: nobody ever did, or the leader has left,
    /// or died so long ago that its beats have been deleted.
    fn is_led_by_nobody(&self, partition: u16) -> bool {
        let Progress { accepted, promised, .. } = self.partitions[usize::from(partition)];
        let has_left = |server| self.servers.get(&server).is_none_or(|peer| peer.has_left(partition));
        let is_over = |Ballot { round, server }| round == 0 || (server != self.me && has_left(server));
        is_over(accepted.ballot) && is_over(promised)
    }

    /// How many servers ask before this one. One that was seen first a moment ago may live.
    fn rank(&self, partition: u16, now: Instant) -> u32 {
        let mine = weight(self.me, partition);
        let may_ask = |peer: &Peer| peer.silent_for(now) < SILENCE_MAX && !peer.told.leaves;
        let before = self.servers.iter().filter(|(server, peer)| may_ask(peer) && weight(**server, partition) > mine);
        u32::try_from(before.count()).unwrap_or(u32::MAX)
    }

    /// The other server that is to have a partition that this one leads, if there is one: the first in the order of the
    /// election, if it has lived for a while. A server that leaves itself takes any that lives.
    pub(super) fn heir(&self, partition: u16, leaves: bool, now: Instant) -> Option<ServerId> {
        let settled = |peer: &Peer| leaves || now.duration_since(peer.first_seen) >= SETTLED_AFTER;
        let lives = |peer: &Peer| peer.lives(now) && !peer.told.leaves;
        let others = self.servers.iter().filter(|(_, peer)| lives(peer) && settled(peer)).map(|(server, _)| *server);
        let best = others.max_by_key(|server| weight(*server, partition))?;
        (leaves || weight(best, partition) > weight(self.me, partition)).then_some(best)
    }

    /// The leader of a partition by what living servers told; of several, the one with the highest ballot.
    pub(super) fn leader(&self, partition: u16, now: Instant) -> Option<Known> {
        let living = self.servers.iter().filter(|(_, peer)| peer.lives(now));
        let leads = living.filter_map(|(server, peer)| {
            let Led { round, now: time, .. } = peer.told.leads.iter().find(|led| led.partition == partition)?;
            Some(Known { ballot: Ballot { round: *round, server: *server }, time: *time, heard: peer.clock })
        });
        leads.max_by_key(|known| known.ballot)
    }

    /// The highest ballot that was seen in a partition.
    pub(super) fn highest(&self, partition: u16) -> Ballot {
        let progress = &self.partitions[usize::from(partition)];
        progress.accepted.ballot.max(progress.promised)
    }
}

/// Rendezvous hashing: the server with the highest weight is the first to lead a partition. When a server comes or goes,
/// only the partitions that it leads move.
fn weight(server: ServerId, partition: u16) -> (u64, ServerId) {
    let mut bytes = [0; 14];
    let (id, number) = bytes.split_at_mut(12);
    id.copy_from_slice(&server.0);
    number.copy_from_slice(&partition.to_be_bytes());
    (xxh3_64(&bytes), server)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITIONS: u16 = 8;
    const ME: ServerId = ServerId([1; 12]);
    const OTHER: ServerId = ServerId([2; 12]);
    const THIRD: ServerId = ServerId([3; 12]);

    fn clock(millis: u64) -> StoreTime {
        StoreTime::from_micros(1_000_000_000 + 1_000 * millis)
    }

    /// Moments of one test.
    #[derive(Clone, Copy)]
    struct Start(Instant);

    impl Start {
        fn at(self, millis: u64) -> Instant {
            self.0 + Duration::from_millis(millis)
        }
    }

    fn ballot(round: u64, server: ServerId) -> Ballot {
        Ballot { round, server }
    }

    fn votes(ballot: Ballot, seq: u64) -> Seen {
        Seen::Votes { promised: ballot, accepted: Position { ballot, seq } }
    }

    fn told(count: u64) -> Told {
        Told { count, ..Told::default() }
    }

    /// What all nodes show at this time.
    fn all_show(it: &mut Election, now: Instant, seen: &Seen, servers: &[(ServerId, Told)]) {
        for node in 0..it.nodes.len() {
            it.saw(node, (now, now, clock(7)), vec![seen.clone(); usize::from(PARTITIONS)], servers.to_vec());
        }
    }

    fn due(it: &Election, now: Instant) -> usize {
        (0..PARTITIONS).filter(|partition| it.is_due(*partition, now)).count()
    }

    #[test]
    fn a_cluster_that_nobody_led_is_led_at_once() {
        let start = Start(Instant::now());
        let at = |millis| start.at(millis);
        let mut it = Election::new(ME, 3, PARTITIONS, at(0));
        assert_eq!(due(&it, at(0)), 0, "no node is seen");
        it.saw(0, (at(0), at(0), clock(0)), vec![votes(Ballot::default(), 0); 8], vec![]);
        assert_eq!(due(&it, at(0)), 0, "one of three");
        it.saw(1, (at(0), at(0), clock(0)), vec![votes(Ballot::default(), 0); 8], vec![]);
        assert_eq!(due(&it, at(0)), 8);
        assert_eq!(due(&it, at(1_000)), 0, "what was seen long ago does not count");
    }

    #[test]
    fn a_leader_is_suspected_after_its_silence_and_by_one_server_after_the_other() {
        let start = Start(Instant::now());
        let at = |millis| start.at(millis);
        let mut it = Election::new(ME, 3, PARTITIONS, at(0));
        let mut count = 0;
        let mut show = |it: &mut Election, now, seq| {
            count += 1;
            all_show(it, now, &votes(ballot(4, OTHER), seq), &[(OTHER, told(7)), (THIRD, told(count))]);
        };
        for now in (0..3_000).step_by(300) {
            show(&mut it, at(now), now);
            assert_eq!(due(&it, at(now)), 0, "it writes");
        }
        for now in (3_000..3_900).step_by(300) {
            show(&mut it, at(now), 2_700);
            assert_eq!(due(&it, at(now)), 0, "it may be slow");
        }
        show(&mut it, at(3_900), 2_700);
        let first = due(&it, at(3_900));
        assert!(0 < first && first < 8, "the others are the third server's: {first}");
        assert_eq!(due(&it, at(4_100)), 8, "which does not ask");
    }

    #[test]
    fn who_sees_that_another_asks_waits() {
        let start = Start(Instant::now());
        let at = |millis| start.at(millis);
        let mut it = Election::new(ME, 3, PARTITIONS, at(0));
        all_show(&mut it, at(0), &votes(ballot(4, OTHER), 1), &[(OTHER, told(1))]);
        let asked = Seen::Votes { promised: ballot(5, THIRD), accepted: Position { ballot: ballot(4, OTHER), seq: 1 } };
        all_show(&mut it, at(1_000), &asked, &[(OTHER, told(1)), (THIRD, told(1))]);
        all_show(&mut it, at(1_500), &asked, &[(OTHER, told(1)), (THIRD, told(1))]);
        assert_eq!(due(&it, at(1_500)), 0);
        all_show(&mut it, at(2_500), &asked, &[(OTHER, told(1)), (THIRD, told(1))]);
        assert_eq!(due(&it, at(2_500)), 8, "it died meanwhile");
        // Its own attempts do not hold it back.
        let own = Seen::Votes { promised: ballot(6, ME), accepted: Position { ballot: ballot(4, OTHER), seq: 1 } };
        all_show(&mut it, at(2_600), &own, &[]);
        assert_eq!(due(&it, at(2_600)), 8);
    }

    #[test]
    fn partitions_without_a_voting_majority_have_no_candidates() {
        let start = Start(Instant::now());
        let at = |millis| start.at(millis);
        let mut it = Election::new(ME, 3, PARTITIONS, at(0));
        let stranger = Seen::Stranger { next: crate::store::quorum::ballot::Stamp(1), written: Ballot::default() };
        for (node, seen) in [(0, votes(Ballot::default(), 0)), (1, stranger.clone()), (2, stranger)] {
            it.saw(node, (at(0), at(0), clock(0)), vec![seen; 8], vec![]);
        }
        assert_eq!(due(&it, at(5)), 0);
    }

    #[test]
    fn a_server_that_comes_gets_its_share_once_it_has_settled() {
        let start = Start(Instant::now());
        let at = |millis| start.at(millis);
        let mut it = Election::new(ME, 3, PARTITIONS, at(0));
        let heirs = |it: &Election, leaves, now| {
            (0..PARTITIONS).filter(|partition| it.heir(*partition, leaves, now).is_some()).count()
        };
        all_show(&mut it, at(0), &votes(ballot(1, ME), 1), &[(OTHER, told(1))]);
        assert_eq!(heirs(&it, true, at(0)), 0, "what a node shows at first may be old");
        let mut count = 1;
        for now in (300..=2_100).step_by(300) {
            count += 1;
            all_show(&mut it, at(now), &votes(ballot(1, ME), now), &[(OTHER, told(count))]);
            assert_eq!((heirs(&it, false, at(now)) > 0, heirs(&it, true, at(now))), (now >= 2_000, 8));
        }
        let share = heirs(&it, false, at(2_100));
        assert!(share < 8, "each has some");
        let leaving = Told { leaves: true, ..told(count + 1) };
        all_show(&mut it, at(2_400), &votes(ballot(1, ME), 9_999), &[(OTHER, leaving)]);
        assert_eq!((heirs(&it, false, at(2_400)), heirs(&it, true, at(2_400))), (0, 0));
    }

    #[test]
    fn the_leader_is_the_living_server_with_the_highest_ballot() {
        let start = Start(Instant::now());
        let at = |millis| start.at(millis);
        let mut it = Election::new(ME, 3, PARTITIONS, at(0));
        let led = |round| Led { partition: 3, round, now: clock(5) };
        let leads = |count, round| Told { leads: vec![led(round)], ..told(count) };
        for count in 1..=2 {
            let servers = [(OTHER, leads(count, 5)), (THIRD, leads(count, 4))];
            all_show(&mut it, at(300 * count), &votes(ballot(5, OTHER), count), &servers);
        }
        let known = it.leader(3, at(601)).unwrap();
        assert_eq!(known, Known { ballot: ballot(5, OTHER), time: clock(5), heard: clock(7) });
        assert_eq!(it.leader(2, at(601)), None);
        assert_eq!(it.leader(3, at(1_800)), None, "both are silent");
        assert_eq!(it.gone(at(29_000)), []);
        assert_eq!(it.gone(at(31_000)), [OTHER, THIRD]);
    }
}
