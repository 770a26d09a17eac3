//! Leading a partition: batches to all nodes, and what a majority has.
//!
//! The leader lets an answer out only when a majority has acknowledged a batch that was written at or after the
//! answer's turn ([`Leader::committed`]). Nothing else makes it safe: no lease of the leadership, and no clock.

use super::{
    ballot::{Ballot, Position, Stamp, TransferId, majority},
    message::{Answer, Request},
    progress::{Membership, Progress, Snapshot, Transfer},
    tokens::Tokens,
};
use crate::store::content::{Bytes, Changes};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

pub use super::progress::{Purpose, STAGED_BYTES_MAX, STAGED_RECORDS_MAX};

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
    /// The last batches, up to `seq`, but for those that all nodes have acknowledged.
    ring: VecDeque<Arc<Changes>>,
    progress: Vec<Progress>,
    /// The highest batch that each node has acknowledged in any of its memberships.
    acknowledged: Vec<u64>,
    /// The highest token whose grant may have been answered.
    acknowledged_token: u64,
    /// Batches that no majority has, and that have higher tokens than the one before: their numbers and tokens.
    draws: VecDeque<(u64, u64)>,
    /// With one node: the membership that it leads in. It leads in no other, as no other node could tell whose history
    /// is the partition's.
    home: Option<Home>,
}

/// A membership of the only node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Home {
    stamp: Stamp,
    /// Whether the leader begins it.
    begins: bool,
    /// Whether the node is known to be in another one.
    is_over: bool,
}

/// What a leader's memory goes back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// It was read from a voting node that stood at this batch.
    Read(Position),
    /// It is to begin this membership of the only node.
    Begins(Stamp),
}

/// What an answer means for the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heard {
    /// It goes on.
    Leads,
    /// It leads no more: a node has promised this higher ballot, or the only node is in another membership. The next
    /// attempt needs a ballot above this one. [`Leader::is_over`] tells whether its memory is worth keeping.
    Deposed(Ballot),
    /// Somebody raised the sequencer of the only node to this token: it takes the partition over anew.
    Raised(u64),
}

impl Leader {
    /// Leads from what was read: the best of the members, its time and its sequencer. Its first batch is to be written
    /// next.
    pub(crate) fn new(ballot: Ballot, base: Position, time: u64, token: u64, members: &[Option<Membership>]) -> Self {
        let progress = |member: &Option<Membership>| match member {
            Some(member) if member.accepted == base => Progress::Follows { stamp: member.stamp, sent: 0 },
            Some(member) => Progress::Behind { stamp: member.stamp, transfer: None },
            None => Progress::Unknown { asked: false },
        };
        let home = match members {
            [Some(only)] => Some(Home { stamp: only.stamp, begins: false, is_over: false }),
            _ => None,
        };
        Self {
            ballot,
            base,
            time,
            token,
            seq: 0,
            ring: VecDeque::new(),
            progress: members.iter().map(progress).collect(),
            acknowledged: vec![0; members.len()],
            acknowledged_token: token,
            draws: VecDeque::new(),
            home,
        }
    }

    /// Leads with a ballot that was never used, and begins this membership of the only node, which lost its memory.
    /// Its first batch is to be written next; then the node wants a snapshot.
    pub fn begins(ballot: Ballot, next: Stamp, time: u64, tokens: Tokens) -> Self {
        let Tokens { acknowledged, drawn: token } = tokens;
        let leader = Self::new(ballot, Position::default(), time, token, &[None]);
        let (asked, confirmed) = (BTreeSet::new(), BTreeSet::new());
        Self {
            progress: vec![Progress::Stranger { next, asked, confirmed, transfer: None }],
            acknowledged_token: acknowledged,
            draws: (acknowledged < token).then_some((1, token)).into_iter().collect(),
            home: Some(Home { stamp: next, begins: true, is_over: false }),
            ..leader
        }
    }

    /// Its ballot.
    pub fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// What its memory goes back to.
    pub fn origin(&self) -> Origin {
        match self.home {
            Some(Home { stamp, begins: true, .. }) => Origin::Begins(stamp),
            _ => Origin::Read(self.base),
        }
    }

    /// With one node: whether that is in another membership than the one that this leader's memory is of. Somebody else
    /// was first to admit it.
    pub fn is_over(&self) -> bool {
        self.home.is_some_and(|home| home.is_over)
    }

    /// The highest token whose grant may have been answered: of what was read, or of the last batch that a majority
    /// has.
    pub fn acknowledged_token(&self) -> u64 {
        self.acknowledged_token
    }

    /// The highest token and the partition's time, in microseconds, of the last batch. Before the first one: of what
    /// was read.
    pub fn token_and_time(&self) -> (u64, u64) {
        (self.token, self.time)
    }

    /// The last batch that was written.
    pub fn position(&self) -> Position {
        Position { ballot: self.ballot, seq: self.seq }
    }

    /// Writes a batch; [`Self::next`] sends it. Answers that rest on it leave when `committed` reaches the result.
    pub fn write(&mut self, changes: Changes) -> u64 {
        if changes.token > self.token {
            self.draws.push_back((self.seq + 1, changes.token));
        }
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

    /// The request that brings the last batch to this node, if it has all but that.
    pub(crate) fn last(&mut self, node: usize) -> Option<(Purpose, Request)> {
        let lacks_one = matches!(&self.progress[node], Progress::Follows { sent, .. } if *sent + 1 == self.seq);
        lacks_one.then(|| self.own(node)).flatten()
    }

    /// Whether this node has all that was written, and nothing is to be asked of it.
    pub(crate) fn has_all(&self, node: usize) -> bool {
        let is_stranger = |progress: &Progress| matches!(progress, Progress::Stranger { .. });
        matches!(&self.progress[node], Progress::Follows { sent, .. } if *sent == self.seq)
            && !self.progress.iter().any(is_stranger)
    }

    /// Whether this node needs a snapshot, by [`Self::stage`], before there are requests for it again.
    pub fn wants_snapshot(&self, node: usize) -> bool {
        let enough = majority(self.progress.len());
        self.seq > 0
            && match &self.progress[node] {
                Progress::Behind { transfer: None, .. } => true,
                Progress::Stranger { next, confirmed, transfer: None, .. } => match self.home {
                    // With one node, no other can confirm the leader: the servers agree who begins a membership.
                    Some(home) => home.begins && home.stamp == *next,
                    None => confirmed.len() >= enough,
                },
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
        let position = self.position();
        let (time, token) = (self.time, self.token);
        if let Progress::Behind { stamp, transfer: made } | Progress::Stranger { next: stamp, transfer: made, .. } =
            &mut self.progress[node]
        {
            *made = Some(Transfer::new(Snapshot { position, transfer, time, token, stamp: *stamp }, records));
        }
    }

    /// Asks this node to confirm the leader to a stranger. The stranger has named its next membership before that.
    fn confirmation(&mut self, node: usize) -> Option<(Purpose, Request)> {
        self.progress.iter_mut().enumerate().find_map(|(stranger, progress)| match progress {
            Progress::Stranger { next, asked, .. } if stranger != node => asked
                .insert(node)
                .then_some((Purpose::Confirm { stranger, next: *next }, Request::Promise(self.ballot))),
            _ => None,
        })
    }

    fn own(&mut self, node: usize) -> Option<(Purpose, Request)> {
        let first = self.seq + 1 - self.ring.len() as u64;
        match &mut self.progress[node] {
            Progress::Unknown { asked: asked @ false } => {
                *asked = true;
                Some((Purpose::Look, Request::Promise(self.ballot)))
            }
            Progress::Follows { stamp, sent } if *sent + 1 < first => {
                self.progress[node] = Progress::Behind { stamp: *stamp, transfer: None };
                None
            }
            Progress::Follows { stamp, sent } if *sent < self.seq => {
                let before = if *sent == 0 { self.base } else { Position { ballot: self.ballot, seq: *sent } };
                *sent += 1;
                let changes = Arc::clone(self.ring.get(usize::try_from(*sent - first).ok()?)?);
                let position = Position { ballot: self.ballot, seq: *sent };
                let purpose = Purpose::Write { stamp: *stamp, seq: *sent };
                Some((purpose, Request::Write { stamp: *stamp, before, position, changes }))
            }
            Progress::Behind { transfer, .. } | Progress::Stranger { transfer, .. } => transfer.as_mut()?.next(),
            _ => None,
        }
    }

    /// Takes a node's answer to a request of this purpose.
    pub fn answered(&mut self, node: usize, purpose: Purpose, answer: Answer) -> Heard {
        match (purpose, answer) {
            (purpose, Answer::No(promised)) if promised > self.ballot => {
                if matches!(purpose, Purpose::Admit { .. }) && self.committed() == 0 {
                    self.is_second();
                }
                return Heard::Deposed(promised);
            }
            // Its promise stands, so this is another membership.
            (_, Answer::No(_)) if self.home.is_some() => return self.ends(self.ballot),
            // Another membership began, or this ballot is not promised yet.
            (_, Answer::No(_)) => self.progress[node] = Progress::Unknown { asked: false },
            (_, Answer::Stranger(next)) => self.estranged(node, next),
            (Purpose::Confirm { stranger, next }, Answer::Promised { .. }) => {
                if let Progress::Stranger { next: present, confirmed, .. } = &mut self.progress[stranger]
                    && *present == next
                {
                    confirmed.insert(node);
                }
            }
            (_, Answer::Promised { stamp, accepted }) => return self.stands(node, stamp, accepted),
            (Purpose::Write { seq, .. }, Answer::Done) => self.acknowledge(node, seq),
            (Purpose::Write { stamp, .. } | Purpose::Admit { stamp, .. }, Answer::At(accepted)) => {
                return self.stands(node, stamp, accepted);
            }
            (Purpose::Write { .. }, Answer::Low(token)) if self.progress.len() == 1 => return Heard::Raised(token),
            (Purpose::Write { stamp, .. }, Answer::Low(_)) => {
                self.progress[node] = Progress::Behind { stamp, transfer: None };
            }
            (Purpose::Admit { stamp, position, .. }, Answer::Done) => {
                self.stands(node, stamp, position);
                self.may_confirm(node);
            }
            (Purpose::Admit { transfer: of, .. }, Answer::Again) => {
                if let Progress::Behind { transfer, .. } | Progress::Stranger { transfer, .. } =
                    &mut self.progress[node]
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
        self.progress[node] = Progress::Unknown { asked: false };
        self.may_confirm(node);
    }

    /// What this node was asked about strangers may not have arrived, or it was a stranger itself: it is asked again.
    fn may_confirm(&mut self, node: usize) {
        for progress in &mut self.progress {
            if let Progress::Stranger { asked, confirmed, .. } = progress
                && !confirmed.contains(&node)
            {
                asked.remove(&node);
            }
        }
    }

    fn acknowledge(&mut self, node: usize, seq: u64) {
        self.acknowledged[node] = self.acknowledged[node].max(seq);
        let committed = self.committed();
        while let Some((_, token)) = self.draws.front().filter(|(seq, _)| *seq <= committed) {
            self.acknowledged_token = *token;
            self.draws.pop_front();
        }
        // No node asks for these again: one that has lost them is in another membership, and gets a snapshot.
        let of_all = self.acknowledged.iter().min().copied().unwrap_or_default();
        while self.seq - (self.ring.len() as u64) < of_all && self.ring.pop_front().is_some() {}
    }

    /// Somebody else was first to begin the membership of the only node.
    fn is_second(&mut self) {
        if let Some(home) = self.home.as_mut().filter(|home| home.begins) {
            home.is_over = true;
        }
    }

    /// The only node is in another membership.
    fn ends(&mut self, seen: Ballot) -> Heard {
        if let Some(home) = &mut self.home {
            home.is_over = true;
        }
        Heard::Deposed(seen.max(self.ballot))
    }

    /// Whether the only node, which stands at this batch of another leader, is in another membership. In its own it
    /// stood at the base when it promised, and has taken no other ballot's batch since.
    fn is_elsewhere(&self, stamp: Stamp, accepted: Position) -> bool {
        self.home.is_some_and(|home| home.begins || home.stamp != stamp || accepted != self.base)
    }

    /// A voting node is at this batch.
    fn stands(&mut self, node: usize, stamp: Stamp, accepted: Position) -> Heard {
        if accepted.ballot != self.ballot && self.is_elsewhere(stamp, accepted) {
            return self.ends(accepted.ballot);
        }
        let is_on_its_way = matches!(&self.progress[node], Progress::Behind { stamp: of, .. } if *of == stamp);
        let progress = if accepted.ballot == self.ballot {
            self.acknowledge(node, accepted.seq);
            Progress::Follows { stamp, sent: accepted.seq }
        } else if accepted == self.base {
            Progress::Follows { stamp, sent: 0 }
        } else if is_on_its_way {
            return Heard::Leads;
        } else {
            Progress::Behind { stamp, transfer: None }
        };
        self.progress[node] = progress;
        Heard::Leads
    }

    /// A node lost its memory.
    fn estranged(&mut self, node: usize, named: Stamp) {
        if !matches!(&self.progress[node], Progress::Stranger { next, .. } if *next == named) {
            let (asked, confirmed) = (BTreeSet::new(), BTreeSet::new());
            self.progress[node] = Progress::Stranger { next: named, asked, confirmed, transfer: None };
        }
    }
}

#[cfg(test)]
mod tests;
