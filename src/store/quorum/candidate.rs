//! Taking over a partition: ask a majority for promises, ask the same nodes again, read the best of them.
//!
//! Why twice: after one round, a node that promised may have lost its memory since, been admitted by an older leader,
//! and have helped that one commit. With two rounds there is a moment between them at which all of a majority had
//! promised and none had forgotten: from then on no older leader gets a majority. One round, with the adoption bound
//! to each node's life, was found wrong by the model (3 ballots, one loss of memory, 27 steps).

use super::{
    ballot::{Ballot, Position, Stamp, majority},
    content::Content,
    leader::Leader,
    message::{Answer, Cursor, Request},
};

/// One attempt to lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    ballot: Ballot,
    /// What each node answered at first.
    first: Vec<Option<Membership>>,
    round: Round,
}

/// A membership of a node, and where it stood when it promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Membership {
    pub(super) stamp: Stamp,
    pub(super) accepted: Position,
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

    /// Takes a node's answer.
    pub fn answered(&mut self, node: usize, question: Question, answer: Answer) -> Step {
        match (question, answer) {
            (_, Answer::No(promised)) if promised > self.ballot => Step::GiveUp(promised),
            (Question::First, Answer::Promised { stamp, accepted }) => self.promised(node, stamp, accepted),
            (Question::Second, Answer::Promised { stamp, .. }) => self.promised_again(node, stamp),
            (Question::Read, Answer::Piece { position, time, token, records, next }) => {
                let Round::Reading { node: best, content, members, from } = &mut self.round else { return Step::Wait };
                if *best != node || members[*best].is_none_or(|member| member.accepted != position) {
                    return Step::Wait;
                }
                content.0.extend(records);
                if let Some(next) = next {
                    *from = next;
                    return self.read();
                }
                let (content, members) = (std::mem::take(content), std::mem::take(members));
                let leader = Box::new(Leader::new(self.ballot, position, time, token, &members));
                Step::Lead { leader, content }
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

    /// Reads the next piece.
    fn read(&self) -> Step {
        let Round::Reading { node, members, from, .. } = &self.round else { return Step::Wait };
        let Some(member) = members[*node] else { return Step::GiveUp(self.ballot) };
        let read = Request::Read { stamp: member.stamp, ballot: self.ballot, from: from.clone() };
        Step::Send(vec![(*node, Question::Read, read)])
    }
}
