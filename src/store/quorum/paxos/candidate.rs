//! Taking over a partition: ask a majority for promises, ask the same nodes again, read the best of them.
//!
//! Why twice: after one round, a node that promised may have lost its memory since, been admitted by an older leader,
//! and have helped that one commit. With two rounds there is a moment between them at which all of a majority had
//! promised and none had forgotten: from then on no older leader gets a majority. One round, with the adoption bound
//! to each node's life, was found wrong by the model (3 ballots, one loss of memory, 27 steps).

use super::{
    ballot::{Ballot, Position, Stamp, majority},
    leader::Leader,
    message::{Answer, Cursor, Request},
    progress::Membership,
    tokens::Tokens,
};
use crate::store::content::{Bytes, Content};

/// One attempt to lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    ballot: Ballot,
    /// What each node answered at first.
    first: Vec<Option<Membership>>,
    round: Round,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Round {
    /// Asks all nodes.
    First,
    /// Asks those again that have answered. The nodes whose same membership has promised again, in the order of their
    /// answers.
    Second(Vec<usize>),
    /// Reads from this node.
    Reading { node: usize, members: Vec<Option<Membership>>, content: Content, from: Cursor },
    /// Reads what the only node kept, to begin this membership with it, and with no lower token.
    ReadingKept { next: Stamp, token: u64, content: Content, from: Cursor },
}

/// What a piece of the content tells beside its records.
#[derive(Clone, Copy, Debug)]
struct Header {
    position: Position,
    time: u64,
    token: u64,
}

/// Which question of a candidate a request asks. The caller gives it back with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Question {
    /// A promise of the first round.
    First,
    /// A promise of the second round.
    Second,
    /// A read.
    Read,
}

/// What a candidate does next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Sends these, to nodes by their index, and waits for answers. A request whose answer is lost may be sent again.
    Send(Vec<(usize, Question, Request)>),
    /// Waits.
    Wait,
    /// Leads, and goes on from this content.
    Lead {
        /// The leader. Its first batch is to be written next.
        leader: Box<Leader>,
        /// What was read: all that a majority had, perhaps more.
        content: Content,
    },
    /// Gives this attempt up; the next one needs a higher ballot than this.
    GiveUp(Ballot),
}

impl Candidate {
    /// Begins an attempt with a ballot that was never used, at so many nodes.
    pub fn new(ballot: Ballot, nodes: usize) -> (Self, Step) {
        let sends = (0..nodes).map(|node| (node, Question::First, Request::Promise(ballot))).collect();
        (Self { ballot, first: vec![None; nodes], round: Round::First }, Step::Send(sends))
    }

    /// Begins an attempt with a ballot that was never used, at the only node, which lost its memory: to go on with what
    /// it kept, and to begin its next membership. Tokens go on above `token`.
    pub fn of_stranger(ballot: Ballot, next: Stamp, token: u64) -> (Self, Step) {
        let round = Round::ReadingKept { next, token, content: Content::default(), from: Cursor::default() };
        let it = Self { ballot, first: vec![None], round };
        let step = it.read();
        (it, step)
    }

    /// The membership that it is to begin, if it is an attempt at a node that lost its memory. Any other attempt is to
    /// be given up when such a node is seen: what it reads may be older than what this server reports.
    pub fn begins(&self) -> Option<Stamp> {
        match self.round {
            Round::ReadingKept { next, .. } => Some(next),
            Round::First | Round::Second(_) | Round::Reading { .. } => None,
        }
    }

    /// Takes a node's answer.
    pub fn answered(&mut self, node: usize, question: Question, answer: Answer) -> Step {
        match (question, answer) {
            (_, Answer::No(promised)) if promised > self.ballot => Step::GiveUp(promised),
            (Question::First, Answer::Promised { stamp, accepted }) => self.promised(node, stamp, accepted),
            (Question::Second, Answer::Promised { stamp, .. }) => self.promised_again(node, stamp),
            (Question::Read, Answer::Piece { position, time, token, records, next }) => {
                if !self.is_read_of(node, position) {
                    return Step::Wait;
                }
                self.has_read(Header { position, time, token }, records, next)
            }
            // The membership that was asked is over. Another attempt finds the node's next one, or another majority.
            (Question::Second | Question::Read, Answer::No(_) | Answer::Stranger(_)) => Step::GiveUp(self.ballot),
            _ => Step::Wait,
        }
    }

    fn promised(&mut self, node: usize, stamp: Stamp, accepted: Position) -> Step {
        // Who answers later is not asked again: nobody knows on which side of the moment its promise was given.
        if self.round != Round::First {
            return Step::Wait;
        }
        self.first[node] = Some(Membership { stamp, accepted });
        if self.first.iter().flatten().count() < majority(self.first.len()) {
            return Step::Wait;
        }
        self.round = Round::Second(vec![]);
        let asked = (0..self.first.len()).filter(|node| self.first[*node].is_some());
        Step::Send(asked.map(|node| (node, Question::Second, Request::Promise(self.ballot))).collect())
    }

    fn promised_again(&mut self, node: usize, stamp: Stamp) -> Step {
        let Round::Second(again) = &mut self.round else { return Step::Wait };
        if self.first[node].is_none_or(|first| first.stamp != stamp) {
            return Step::GiveUp(self.ballot);
        }
        if !again.contains(&node) {
            again.push(node);
        }
        if again.len() < majority(self.first.len()) {
            return Step::Wait;
        }
        let members: Vec<_> =
            (0..).zip(&self.first).map(|(node, first)| first.filter(|_| again.contains(&node))).collect();
        // Of those that are equal, the one that answered last.
        let best = again.iter().copied().max_by_key(|node| members[*node].map(|member| member.accepted));
        let (content, from) = (Content::default(), Cursor::default());
        self.round = Round::Reading { node: best.unwrap_or(0), members, content, from };
        self.read()
    }

    /// Whether it reads from this node, and this is the batch at which the content is frozen.
    fn is_read_of(&self, node: usize, position: Position) -> bool {
        match &self.round {
            Round::Reading { node: best, members, .. } => {
                *best == node && members[*best].is_some_and(|member| member.accepted == position)
            }
            // Nothing but ADMIT writes at a stranger, so all pieces are of one content.
            Round::ReadingKept { .. } => true,
            Round::First | Round::Second(_) => false,
        }
    }

    fn has_read(&mut self, header: Header, records: Vec<(Bytes, Bytes)>, next: Option<Cursor>) -> Step {
        let Header { position, time, token } = header;
        let (Round::Reading { content, from, .. } | Round::ReadingKept { content, from, .. }) = &mut self.round else {
            return Step::Wait;
        };
        content.0.extend(records);
        if let Some(next) = next {
            *from = next;
            return self.read();
        }
        let content = std::mem::take(content);
        let leader = match &self.round {
            Round::ReadingKept { next, token: skip, .. } => {
                Leader::begins(self.ballot, *next, time, Tokens::all_answered(token.max(*skip)))
            }
            Round::Reading { members, .. } => Leader::new(self.ballot, position, time, token, members),
            Round::First | Round::Second(_) => return Step::Wait,
        };
        Step::Lead { leader: Box::new(leader), content }
    }

    /// Reads the next piece.
    fn read(&self) -> Step {
        let (node, stamp, from) = match &self.round {
            Round::Reading { node, members, from, .. } => match members[*node] {
                Some(member) => (*node, member.stamp, from),
                None => return Step::GiveUp(self.ballot),
            },
            Round::ReadingKept { next, from, .. } => (0, *next, from),
            Round::First | Round::Second(_) => return Step::Wait,
        };
        let read = Request::Read { stamp, ballot: self.ballot, from: from.clone() };
        Step::Send(vec![(node, Question::Read, read)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::quorum::paxos::leader::Origin;

    const NEXT: Stamp = Stamp(7);

    fn piece(token: u64, text: &str, next: Option<Cursor>) -> Answer {
        let records = vec![(text.as_bytes().into(), text.as_bytes().into())];
        Answer::Piece { position: Position { seq: 3, ..Position::default() }, time: 8, token, records, next }
    }

    #[test]
    fn what_a_stranger_kept_is_read_in_pieces_and_begins_its_next_membership() {
        let ballot = Ballot { round: 2, ..Ballot::default() };
        let read = |from: &Cursor| {
            let request = Request::Read { stamp: NEXT, ballot, from: from.clone() };
            Step::Send(vec![(0, Question::Read, request)])
        };
        for (kept, token) in [(40, 50), (60, 60)] {
            let (mut candidate, step) = Candidate::of_stranger(ballot, NEXT, 50);
            assert_eq!((step, candidate.begins()), (read(&Cursor::default()), Some(NEXT)));
            let more = Cursor(b"a".as_slice().into());
            assert_eq!(candidate.answered(0, Question::Read, piece(kept, "a", Some(more.clone()))), read(&more));
            let step = candidate.answered(0, Question::Read, piece(kept, "b", None));
            let Step::Lead { leader, content } = step else { panic!("{step:?}") };
            assert_eq!(content.0.len(), 2);
            assert_eq!((leader.token_and_time(), leader.acknowledged_token()), ((token, 8), token));
            assert_eq!((leader.ballot(), leader.origin()), (ballot, Origin::Begins(NEXT)));
        }
        // Somebody else was first, or the node was lost again.
        for answer in [Answer::No(Ballot::default()), Answer::Stranger(Stamp(8))] {
            let (mut candidate, _) = Candidate::of_stranger(ballot, NEXT, 50);
            assert_eq!(candidate.answered(0, Question::Read, answer), Step::GiveUp(ballot));
        }
        assert_eq!(Candidate::new(ballot, 1).0.begins(), None);
    }
}
