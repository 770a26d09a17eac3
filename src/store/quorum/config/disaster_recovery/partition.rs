//! One partition of a rebuild: read what each node kept, and give the best of it to all. Pure.

use crate::store::{
    content::Content,
    quorum::paxos::{
        ballot::{Ballot, Position, Stamp, TransferId},
        message::{Answer, Cursor, Request},
        progress::{Snapshot, Transfer},
    },
};

/// A partition that is being rebuilt. Each node gets one request at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rebuilding {
    ballot: Ballot,
    /// Tokens go on above this, and above each sequencer.
    token: u64,
    transfer: TransferId,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Asks each node in which membership it is: the present one of a voting node, or the next one of a stranger.
    Promises(Vec<Option<Stamp>>),
    /// Looks where each node's content stands.
    Looks(Vec<Stamp>, Vec<Option<Copy>>),
    /// Reads the rest of the best content, from this node.
    Reads { stamps: Vec<Stamp>, node: usize, best: Copy },
    /// Gives all nodes the best content: what is still to be sent to each, and whether it has it.
    Gives(Vec<Transfer>, Vec<bool>, Rebuilt),
}

/// What a node kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Copy {
    position: Position,
    time: u64,
    token: u64,
    content: Content,
    /// Where the rest begins, if this is not all of it.
    next: Option<Cursor>,
}

/// How a partition goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rebuilt {
    /// The node that had the best content.
    pub from: usize,
    /// The batch at which that stood.
    pub was_at: Position,
    /// How many records it has.
    pub records: usize,
    /// Tokens go on above this.
    pub token: u64,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Send these, and give each answer back.
    Send(Vec<(usize, Request)>),
    /// Other answers are missing.
    Wait,
    /// All nodes vote, with the same content.
    Done(Rebuilt),
    /// Begin again, with a ballot above this one.
    Above(Ballot),
    /// This node is not as it was a moment ago: the rebuild has to be broken off.
    Changed(usize),
}

impl Rebuilding {
    /// Begins with a ballot and a transfer that were never used, at so many nodes.
    pub fn new(ballot: Ballot, token: u64, transfer: TransferId, nodes: usize) -> (Self, Step) {
        let sends = (0..nodes).map(|node| (node, Request::Promise(ballot))).collect();
        (Self { ballot, token, transfer, phase: Phase::Promises(vec![None; nodes]) }, Step::Send(sends))
    }

    /// Takes a node's answer to the last request that it got.
    pub fn answered(&mut self, node: usize, answer: Answer) -> Step {
        match (&mut self.phase, answer) {
            (_, Answer::No(promised)) if promised > self.ballot => Step::Above(promised),
            (Phase::Promises(stamps), Answer::Promised { stamp, .. } | Answer::Stranger(stamp)) => {
                stamps[node] = Some(stamp);
                if stamps.iter().any(Option::is_none) {
                    return Step::Wait;
                }
                let stamps: Vec<Stamp> = stamps.iter().copied().flatten().collect();
                let sends =
                    (0..).zip(&stamps).map(|(node, stamp)| (node, read(self.ballot, *stamp, &Cursor::default())));
                let step = Step::Send(sends.collect());
                self.phase = Phase::Looks(stamps.clone(), vec![None; stamps.len()]);
                step
            }
            (Phase::Looks(_, copies), Answer::Piece { position, time, token, records, next }) => {
                // What all get has to be later than what any had.
                if position.ballot >= self.ballot {
                    return Step::Above(position.ballot);
                }
                let content = Content(records.into_iter().collect());
                copies[node] = Some(Copy { position, time, token, content, next });
                if copies.iter().any(Option::is_none) { Step::Wait } else { self.choose() }
            }
            (Phase::Reads { node: of, best, .. }, Answer::Piece { position, records, next, .. }) => {
                if *of != node || best.position != position {
                    return Step::Changed(node);
                }
                best.content.0.extend(records);
                best.next = next;
                self.read_on()
            }
            (Phase::Gives(left, has, rebuilt), Answer::Done) => match left[node].next() {
                Some((_, request)) => Step::Send(vec![(node, request)]),
                None => {
                    has[node] = true;
                    if has.iter().all(|has| *has) { Step::Done(*rebuilt) } else { Step::Wait }
                }
            },
            _ => Step::Changed(node),
        }
    }

    /// Goes on from the latest content. Of equal ones, from that of the first node.
    fn choose(&mut self) -> Step {
        let Phase::Looks(stamps, copies) = &mut self.phase else { return Step::Wait };
        let stamps = std::mem::take(stamps);
        let copies: Vec<Copy> = copies.iter_mut().filter_map(Option::take).collect();
        self.token = copies.iter().map(|copy| copy.token).fold(self.token, u64::max);
        let best = copies.into_iter().enumerate().rev().max_by_key(|(_, copy)| copy.position);
        let Some((node, best)) = best else { return Step::Wait };
        self.phase = Phase::Reads { stamps, node, best };
        self.read_on()
    }

    fn read_on(&mut self) -> Step {
        let Phase::Reads { stamps, node, best } = &mut self.phase else { return Step::Wait };
        if let Some(next) = &best.next {
            return Step::Send(vec![(*node, read(self.ballot, stamps[*node], next))]);
        }
        let position = Position { ballot: self.ballot, seq: 1 };
        let (transfer, time, token) = (self.transfer, best.time, self.token);
        let snapshot = |stamp| Snapshot { position, transfer, time, token, stamp };
        let records = || best.content.0.iter().map(|(key, record)| (key.clone(), record.clone()));
        let mut left: Vec<_> = stamps.iter().map(|stamp| Transfer::new(snapshot(*stamp), records())).collect();
        let rebuilt = Rebuilt { from: *node, was_at: best.position, records: best.content.0.len(), token };
        let first = (0..).zip(&mut left).filter_map(|(node, left)| Some((node, left.next()?.1)));
        let step = Step::Send(first.collect());
        self.phase = Phase::Gives(left, vec![false; stamps.len()], rebuilt);
        step
    }
}

/// What a stranger kept is read by the name of its next membership.
fn read(ballot: Ballot, stamp: Stamp, from: &Cursor) -> Request {
    Request::Read { stamp, ballot, from: from.clone() }
}

#[cfg(test)]
mod tests;
