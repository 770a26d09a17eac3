//! What one node keeps of one partition, and how it answers: the pure twin of the scripts that run in Redis.

use super::{
    ballot::{Ballot, Position, Stamp, TransferId},
    content::{Bytes, Content},
    message::{Answer, Cursor, Request},
};
use std::collections::BTreeMap;

/// One life of a node's memory: another one after each restart, promotion or restored backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(pub u64);

/// Records of one answer to a read, at most.
pub const PIECE_RECORDS_MAX: usize = 512;

/// What a node keeps of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Acceptor {
    /// The present or the last membership.
    pub header: Option<Header>,
    /// The sequencer.
    pub token: u64,
    /// The records.
    pub content: Content,
    /// Names the next membership, while the node is a stranger in this incarnation.
    pub next: Option<(Incarnation, Stamp)>,
    /// Snapshots under way.
    pub staged: BTreeMap<(Position, TransferId), Content>,
}

/// The state of a membership.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The life of the node that the membership belongs to.
    pub incarnation: Incarnation,
    /// Its name.
    pub stamp: Stamp,
    /// The node heeds no lower ballot.
    pub promised: Ballot,
    /// The last batch.
    pub accepted: Position,
    /// The partition's time at that batch, in microseconds.
    pub time: u64,
}

impl Acceptor {
    /// A member from the start on, with no batch: how an operator creates a partition.
    pub fn created(incarnation: Incarnation, stamp: Stamp, token: u64) -> Self {
        let header = Header { incarnation, stamp, promised: Ballot::default(), accepted: Position::default(), time: 0 };
        Self { header: Some(header), token, ..Self::default() }
    }

    /// Carries a request out. `present` is the node's incarnation, `fresh` a stamp that was never used.
    pub fn answer(&mut self, present: Incarnation, fresh: Stamp, request: &Request) -> Answer {
        let voting = self.header.as_ref().is_some_and(|header| header.incarnation == present);
        let next = match self.next {
            _ if voting => fresh,
            Some((incarnation, stamp)) if incarnation == present => stamp,
            _ => {
                self.next = Some((present, fresh));
                fresh
            }
        };
        match (request, &mut self.header) {
            (Request::Stage { position, transfer, piece }, _) => {
                self.staged.entry((*position, *transfer)).or_default().0.extend(piece.iter().cloned());
                Answer::Done
            }
            (Request::Admit { stamp, .. }, _) if !voting && *stamp != next => Answer::Stranger(next),
            (Request::Admit { .. }, Some(header)) if voting => match header.refuses_snapshot(request) {
                Some(refusal) => refusal,
                None => self.admit(present, request),
            },
            (Request::Admit { .. }, _) => self.admit(present, request),
            // What a stranger kept may be read: with one node, a server goes on from it.
            (Request::Read { stamp, from, .. }, header) if !voting && *stamp == next => {
                let at = header.as_ref().map_or_else(Default::default, |header| (header.accepted, header.time));
                piece(at, self.token, &self.content, from)
            }
            (_, None) => Answer::Stranger(next),
            _ if !voting => Answer::Stranger(next),
            (Request::Promise(ballot), Some(header)) if *ballot < header.promised => Answer::No(header.promised),
            (Request::Promise(ballot), Some(header)) => {
                header.promised = *ballot;
                Answer::Promised { stamp: header.stamp, accepted: header.accepted }
            }
            (Request::Read { stamp, ballot, from }, Some(header)) => {
                if header.promised != *ballot || header.stamp != *stamp {
                    return Answer::No(header.promised);
                }
                piece((header.accepted, header.time), self.token, &self.content, from)
            }
            (Request::Write { stamp, before, position, changes }, Some(header)) => {
                if position.ballot < header.promised || header.stamp != *stamp {
                    return Answer::No(header.promised);
                }
                if header.accepted == *position {
                    return Answer::Done;
                }
                if header.accepted != *before {
                    return Answer::At(header.accepted);
                }
                if changes.token < self.token {
                    return Answer::Low(self.token);
                }
                self.token = changes.token;
                self.content.apply(changes);
                (header.promised, header.accepted, header.time) = (position.ballot, *position, changes.time);
                Answer::Done
            }
        }
    }

    /// Replaces what is kept by what is staged, in one step.
    fn admit(&mut self, present: Incarnation, request: &Request) -> Answer {
        let Request::Admit { position, transfer, count, time, token, stamp } = request else { return Answer::Again };
        let staged = self.staged.remove(&(*position, *transfer)).unwrap_or_default();
        if staged.0.len() != *count {
            return Answer::Again;
        }
        (self.content, self.token, self.next) = (staged, *token, None);
        self.header = Some(Header {
            incarnation: present,
            stamp: *stamp,
            promised: position.ballot,
            accepted: *position,
            time: *time,
        });
        Answer::Done
    }
}

impl Header {
    /// Why a voting node does not take this snapshot.
    fn refuses_snapshot(&self, request: &Request) -> Option<Answer> {
        let Request::Admit { position, stamp, .. } = request else { return None };
        if self.stamp != *stamp || self.promised != position.ballot {
            return Some(Answer::No(self.promised));
        }
        (*position <= self.accepted).then_some(Answer::At(self.accepted))
    }
}

fn piece((position, time): (Position, u64), token: u64, content: &Content, from: &Cursor) -> Answer {
    use std::ops::Bound::{Excluded, Unbounded};
    let after = if from.0.is_empty() { Unbounded } else { Excluded(&from.0) };
    let mut rest = content.0.range::<Bytes, _>((after, Unbounded));
    let records: Vec<(Bytes, Bytes)> =
        rest.by_ref().take(PIECE_RECORDS_MAX).map(|(key, record)| (key.clone(), record.clone())).collect();
    let last = records.last().filter(|_| rest.next().is_some());
    let next = last.map(|(key, _)| Cursor(key.clone()));
    Answer::Piece { position, time, token, records, next }
}
