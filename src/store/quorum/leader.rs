//! Leading a partition: batches to all nodes, and what a majority has.
//!
//! The leader lets an answer out only when a majority has acknowledged a batch that was written at or after the
//! answer's turn ([`Leader::committed`]). Nothing else makes it safe: no lease of the leadership, and no clock.

use super::{
    ballot::{Ballot, Position, Stamp, TransferId, majority},
    candidate::Membership,
    content::{Bytes, Changes},
    message::{Answer, Request},
    peer::{Snapshot, Standing, Transfer},
};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

pub use super::peer::{Purpose, STAGED_BYTES_MAX, STAGED_RECORDS_MAX};

/// Batches that are kept for nodes that are behind. A node that is further behind gets a snapshot.
pub const RING_BATCHES_MAX: usize = 1024;

/// A server that leads, from its first batch until a node has promised a higher ballot. It does not keep the content:
/// the server has that in memory as locks, and encodes it where a node needs a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leader {
    ballot: Ballot,
    /// What the first batch is written onto.
    base: Position,
    /// Partition time and sequencer of the last batch.
    time: u64,
    token: u64,
    seq: u64,
    /// The last batches, up to `seq`.
    ring: VecDeque<Arc<Changes>>,
    standings: Vec<Standing>,
    /// The highest batch that each node has acknowledged in any of its memberships.
    acknowledged: Vec<u64>,
}

/// What an answer means for the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heard {
    /// It goes on.
    Leads,
    /// A node has promised this higher ballot: it leads no more.
    Deposed(Ballot),
    /// Somebody raised the sequencer of the only node to this token: it takes the partition over anew.
    Raised(u64),
}

impl Leader {
    /// Leads from what was read: the best of the members, its time and its sequencer. Its first batch is to be written
    /// next.
    pub(super) fn new(ballot: Ballot, base: Position, time: u64, token: u64, members: &[Option<Membership>]) -> Self {
        let standing = |member: &Option<Membership>| match member {
            Some(member) if member.accepted == base => Standing::Follows { stamp: member.stamp, sent: 0 },
            Some(member) => Standing::Behind { stamp: member.stamp, transfer: None },
            None => Standing::Unknown { asked: false },
        };
        Self {
            ballot,
            base,
            time,
            token,
            seq: 0,
            ring: VecDeque::new(),
            standings: members.iter().map(standing).collect(),
            acknowledged: vec![0; members.len()],
        }
    }

    /// The highest token and the partition's time, in microseconds, of the last batch. Before the first one: of what
    /// was read.
    pub fn token_and_time(&self) -> (u64, u64) {
        (self.token, self.time)
    }

    /// Writes a batch; [`Self::next`] sends it. Answers that rest on it leave when `committed` reaches the result.
    pub fn write(&mut self, changes: Changes) -> u64 {
        (self.time, self.token) = (changes.time, changes.token);
        self.seq += 1;
        self.ring.push_back(Arc::new(changes));
        if self.ring.len() > RING_BATCHES_MAX {
            self.ring.pop_front();
        }
        self.seq
    }

    /// The last batch that a majority has; 0 before the first one.
    pub fn committed(&self) -> u64 {
        let mut acknowledged = self.acknowledged.clone();
        acknowledged.sort_unstable_by(|one, other| other.cmp(one));
        acknowledged[majority(acknowledged.len()) - 1]
    }

    /// The next request to this node, until there is none. They are sent in this order. Then the node may want a
    /// snapshot: see [`Self::wants_snapshot`].
    pub fn next(&mut self, node: usize) -> Option<(Purpose, Request)> {
        if self.seq == 0 {
            return None;
        }
        self.confirmation(node).or_else(|| self.own(node))
    }

    /// Whether this node needs a snapshot, by [`Self::stage`], before there are requests for it again.
    pub fn wants_snapshot(&self, node: usize) -> bool {
        // With one node, no other can confirm the leader.
        let (enough, alone) = (majority(self.standings.len()), self.standings.len() == 1);
        self.seq > 0
            && match &self.standings[node] {
                Standing::Behind { transfer: None, .. } => true,
                Standing::Stranger { confirmed, transfer: None, .. } => !alone && confirmed.len() >= enough,
                _ => false,
            }
    }

    /// Makes a snapshot ready for this node; [`Self::next`] sends it. `records` are the whole content as it is after
    /// the last batch, no earlier and no later, so that the content of a position is the same at all nodes. What is
    /// only committed would not do: the node may have acknowledged more in an earlier membership, and that counts.
    /// `transfer` was never used.
    pub fn stage(&mut self, node: usize, transfer: TransferId, records: impl IntoIterator<Item = (Bytes, Bytes)>) {
        if !self.wants_snapshot(node) {
            return;
        }
        let position = Position { ballot: self.ballot, seq: self.seq };
        let (time, token) = (self.time, self.token);
        if let Standing::Behind { stamp, transfer: made } | Standing::Stranger { next: stamp, transfer: made, .. } =
            &mut self.standings[node]
        {
            *made = Some(Transfer::new(Snapshot { position, transfer, time, token, stamp: *stamp }, records));
        }
    }

    /// Asks this node to confirm the leader to a stranger. The stranger has named its next membership before that.
    fn confirmation(&mut self, node: usize) -> Option<(Purpose, Request)> {
        self.standings.iter_mut().enumerate().find_map(|(stranger, standing)| match standing {
            Standing::Stranger { next, asked, .. } if stranger != node => asked
                .insert(node)
                .then_some((Purpose::Confirm { stranger, next: *next }, Request::Promise(self.ballot))),
            _ => None,
        })
    }

    fn own(&mut self, node: usize) -> Option<(Purpose, Request)> {
        let first = self.seq + 1 - self.ring.len() as u64;
        match &mut self.standings[node] {
            Standing::Unknown { asked: asked @ false } => {
                *asked = true;
                Some((Purpose::Look, Request::Promise(self.ballot)))
            }
            Standing::Follows { stamp, sent } if *sent + 1 < first => {
                self.standings[node] = Standing::Behind { stamp: *stamp, transfer: None };
                None
            }
            Standing::Follows { stamp, sent } if *sent < self.seq => {
                let before = if *sent == 0 { self.base } else { Position { ballot: self.ballot, seq: *sent } };
                *sent += 1;
                let changes = Arc::clone(self.ring.get(usize::try_from(*sent - first).ok()?)?);
                let position = Position { ballot: self.ballot, seq: *sent };
                let purpose = Purpose::Write { stamp: *stamp, seq: *sent };
                Some((purpose, Request::Write { stamp: *stamp, before, position, changes }))
            }
            Standing::Behind { transfer, .. } | Standing::Stranger { transfer, .. } => transfer.as_mut()?.next(),
            _ => None,
        }
    }

    /// Takes a node's answer to a request of this purpose.
    pub fn answered(&mut self, node: usize, purpose: Purpose, answer: Answer) -> Heard {
        match (purpose, answer) {
            (_, Answer::No(promised)) if promised > self.ballot => return Heard::Deposed(promised),
            // Another membership began, or this ballot is not promised yet.
            (_, Answer::No(_)) => self.standings[node] = Standing::Unknown { asked: false },
            (_, Answer::Stranger(next)) => self.estranged(node, next),
            (Purpose::Confirm { stranger, next }, Answer::Promised { .. }) => {
                if let Standing::Stranger { next: present, confirmed, .. } = &mut self.standings[stranger]
                    && *present == next
                {
                    confirmed.insert(node);
                }
            }
            (_, Answer::Promised { stamp, accepted }) => self.stands(node, stamp, accepted),
            (Purpose::Write { seq, .. }, Answer::Done) => self.acknowledge(node, seq),
            (Purpose::Write { stamp, .. } | Purpose::Admit { stamp, .. }, Answer::At(accepted)) => {
                self.stands(node, stamp, accepted);
            }
            (Purpose::Write { .. }, Answer::Low(token)) if self.standings.len() == 1 => return Heard::Raised(token),
            (Purpose::Write { stamp, .. }, Answer::Low(_)) => {
                self.standings[node] = Standing::Behind { stamp, transfer: None };
            }
            (Purpose::Admit { stamp, position, .. }, Answer::Done) => {
                self.stands(node, stamp, position);
                self.may_confirm(node);
            }
            (Purpose::Admit { transfer: of, .. }, Answer::Again) => {
                if let Standing::Behind { transfer, .. } | Standing::Stranger { transfer, .. } =
                    &mut self.standings[node]
                    && transfer.as_ref().is_some_and(|transfer| transfer.id == of)
                {
                    *transfer = None;
                }
            }
            _ => {}
        }
        Heard::Leads
    }

    /// A connection to the node was made anew: what was sent may not have arrived.
    pub fn reconnected(&mut self, node: usize) {
        self.standings[node] = Standing::Unknown { asked: false };
        self.may_confirm(node);
    }

    /// What this node was asked about strangers may not have arrived, or it was a stranger itself: it is asked again.
    fn may_confirm(&mut self, node: usize) {
        for standing in &mut self.standings {
            if let Standing::Stranger { asked, confirmed, .. } = standing
                && !confirmed.contains(&node)
            {
                asked.remove(&node);
            }
        }
    }

    fn acknowledge(&mut self, node: usize, seq: u64) {
        self.acknowledged[node] = self.acknowledged[node].max(seq);
    }

    /// A voting node is at this batch.
    fn stands(&mut self, node: usize, stamp: Stamp, accepted: Position) {
        let is_on_its_way = matches!(&self.standings[node], Standing::Behind { stamp: of, .. } if *of == stamp);
        let standing = if accepted.ballot == self.ballot {
            self.acknowledge(node, accepted.seq);
            Standing::Follows { stamp, sent: accepted.seq }
        } else if accepted == self.base {
            Standing::Follows { stamp, sent: 0 }
        } else if is_on_its_way {
            return;
        } else {
            Standing::Behind { stamp, transfer: None }
        };
        self.standings[node] = standing;
    }

    /// A node lost its memory.
    fn estranged(&mut self, node: usize, named: Stamp) {
        if !matches!(&self.standings[node], Standing::Stranger { next, .. } if *next == named) {
            let (asked, confirmed) = (BTreeSet::new(), BTreeSet::new());
            self.standings[node] = Standing::Stranger { next: named, asked, confirmed, transfer: None };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: Stamp = Stamp(9);

    /// A leader of three nodes, of which the first two are members that have its first batch.
    fn leader() -> Leader {
        let base = Position::default();
        let member = Some(Membership { stamp: Stamp(1), accepted: base });
        let mut leader = Leader::new(Ballot { round: 1, ..Ballot::default() }, base, 0, 0, &[member, member, None]);
        assert_eq!(leader.write(Changes::default()), 1);
        for node in [0, 1] {
            let (purpose, _) = leader.next(node).unwrap();
            assert_eq!(leader.answered(node, purpose, Answer::Done), Heard::Leads);
        }
        assert_eq!(leader.committed(), 1);
        assert!(matches!(leader.next(2), Some((Purpose::Look, _))));
        leader
    }

    fn confirm(leader: &mut Leader, node: usize) {
        let (purpose, _) = leader.next(node).unwrap();
        assert_eq!(purpose, Purpose::Confirm { stranger: 2, next: NEXT });
        let answer = Answer::Promised { stamp: Stamp(1), accepted: Position::default() };
        leader.answered(node, purpose, answer);
    }

    #[test]
    fn a_stranger_gets_a_snapshot_once_all_others_have_confirmed() {
        let mut leader = leader();
        leader.answered(2, Purpose::Look, Answer::Stranger(NEXT));
        confirm(&mut leader, 0);
        assert!(!leader.wants_snapshot(2));
        // The other one's connection breaks: it is asked again.
        assert!(leader.next(1).is_some());
        leader.reconnected(1);
        confirm(&mut leader, 1);
        assert!(leader.wants_snapshot(2));
    }

    #[test]
    fn a_snapshot_goes_in_pieces_and_is_staged_anew_if_it_is_gone() {
        let mut leader = leader();
        leader.answered(
            2,
            Purpose::Look,
            Answer::Promised { stamp: NEXT, accepted: Position { seq: 7, ..Position::default() } },
        );
        for transfer in [TransferId(1), TransferId(2)] {
            assert!(leader.wants_snapshot(2));
            let key = |number: usize| number.to_be_bytes().as_slice().into();
            let small = (0..=STAGED_RECORDS_MAX).map(|number| (key(number), b"".as_slice().into()));
            let large = (1..4).map(|number| (key(1000 + number), vec![0; STAGED_BYTES_MAX / 2 * number].into()));
            leader.stage(2, transfer, small.chain(large));
            let mut counts = vec![];
            let (purpose, count) = loop {
                match leader.next(2).unwrap() {
                    (Purpose::Stage, Request::Stage { piece, .. }) => counts.push(piece.len()),
                    (purpose, Request::Admit { count, .. }) => break (purpose, count),
                    other => panic!("{other:?}"),
                }
            };
            assert_eq!(counts, [STAGED_RECORDS_MAX, 2, 1, 1]);
            assert_eq!(count, STAGED_RECORDS_MAX + 4);
            assert_eq!(leader.next(2), None);
            leader.answered(2, purpose, Answer::Again);
        }
    }

    #[test]
    fn a_node_that_is_further_behind_than_the_ring_gets_a_snapshot() {
        let mut leader = leader();
        leader.answered(2, Purpose::Look, Answer::Promised { stamp: NEXT, accepted: Position::default() });
        for _ in 0..RING_BATCHES_MAX {
            leader.write(Changes::default());
        }
        assert_eq!(leader.next(2), None);
        assert!(leader.wants_snapshot(2) && !leader.wants_snapshot(0));
    }

    #[test]
    fn a_raised_sequencer_means_a_takeover_only_where_no_other_node_has_it_right() {
        let mut leader = leader();
        leader.write(Changes::default());
        let (purpose, _) = leader.next(0).unwrap();
        assert_eq!(leader.answered(0, purpose, Answer::Low(5)), Heard::Leads);
        assert!(leader.wants_snapshot(0));
        let member = Some(Membership { stamp: Stamp(1), accepted: Position::default() });
        let mut alone = Leader::new(Ballot::default(), Position::default(), 0, 0, &[member]);
        alone.write(Changes::default());
        let (purpose, _) = alone.next(0).unwrap();
        assert_eq!(alone.answered(0, purpose, Answer::Low(5)), Heard::Raised(5));
    }
}
