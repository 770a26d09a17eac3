//! The acceptor of one partition at one node: its state and its answers. The pure twin of the scripts that run in
//! Redis.

use super::{
    ballot::{Ballot, Position, Stamp, TransferId},
    classic_keys::ClassicKeys,
    message::{Answer, Cursor, Request},
};
use crate::store::content::{Bytes, Content};
use std::{collections::BTreeMap, sync::Arc};

/// One life of a node's memory: another one after each restart, promotion or restored backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// No life: that of a header without a sequencer.
    pub const NONE: Self = Self(u64::MAX);
}

/// Records of one answer to a read, at most.
pub const PIECE_RECORDS_MAX: usize = 512;

/// What a node keeps of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Acceptor {
    /// The present or the last membership.
    pub header: Option<Header>,
    /// The sequencer. Somebody may have deleted it.
    pub token: Option<u64>,
    /// The records.
    pub content: Content,
    /// Names the next membership, while the node is a stranger in this incarnation.
    pub next: Option<(Incarnation, Stamp)>,
    /// Snapshots under way.
    pub staged: BTreeMap<(Position, TransferId), Content>,
    /// The classic keys of its locks.
    pub classic: ClassicKeys,
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

/// What a server's heartbeat sees of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Seen {
    /// The node votes in it.
    Votes {
        /// It heeds no lower ballot.
        promised: Ballot,
        /// The last batch.
        accepted: Position,
    },
    /// It lost its memory, or was never a member.
    Stranger {
        /// Its next membership.
        next: Stamp,
        /// The ballot of the last batch in what it kept, of an earlier life.
        written: Ballot,
    },
    /// What it keeps is damaged, in this way: nothing is known, and a request about the partition has no answer either.
    Broken(Arc<str>),
}

impl Acceptor {
    /// Carries a request out. `present` is the node's incarnation, `fresh` a stamp that was never used.
    pub fn answer(&mut self, present: Incarnation, fresh: Stamp, request: &Request) -> Answer {
        self.leaves_without_sequencer(present);
        let (voting, token) = (self.votes(present), self.token.unwrap_or_default());
        // A member names no next membership.
        let next = if voting { fresh } else { self.next_stamp(present, fresh) };
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
                piece(at, token, &self.content, from)
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
                piece((header.accepted, header.time), token, &self.content, from)
            }
            (Request::Classic(step), Some(header)) if step.position.ballot != header.promised => {
                Answer::No(header.promised)
            }
            (Request::Classic(step), Some(_)) => self.classic.step(step),
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
                if changes.token < token {
                    return Answer::Low(token);
                }
                self.token = Some(changes.token);
                self.content.apply(changes);
                (header.promised, header.accepted, header.time) = (position.ballot, *position, changes.time);
                Answer::Done
            }
        }
    }

    /// Where it stands, for a server's heartbeat.
    pub fn seen(&mut self, present: Incarnation, fresh: Stamp) -> Seen {
        match &self.header {
            Some(Header { promised, accepted, .. }) if self.votes(present) => {
                Seen::Votes { promised: *promised, accepted: *accepted }
            }
            header => {
                let written = header.as_ref().map_or_else(Ballot::default, |header| header.accepted.ballot);
                Seen::Stranger { next: self.next_stamp(present, fresh), written }
            }
        }
    }

    fn votes(&self, present: Incarnation) -> bool {
        self.header.as_ref().is_some_and(|header| header.incarnation == present)
    }

    /// A member without its sequencer does not know which tokens were drawn. It is a stranger from here on, as after a
    /// restart from a backup with an older sequencer.
    fn leaves_without_sequencer(&mut self, present: Incarnation) {
        if let Some(header) = self.header.as_mut().filter(|header| header.incarnation == present)
            && self.token.is_none()
        {
            header.incarnation = Incarnation::NONE;
        }
    }

    /// Names a stranger's next membership.
    fn next_stamp(&mut self, present: Incarnation, fresh: Stamp) -> Stamp {
        match self.next {
            Some((incarnation, stamp)) if incarnation == present => stamp,
            _ => {
                self.next = Some((present, fresh));
                fresh
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
        (self.content, self.token, self.next) = (staged, Some(*token), None);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::content::Changes;
    use std::sync::Arc;

    const FIRST: Incarnation = Incarnation(1);
    const SECOND: Incarnation = Incarnation(2);
    const MEMBER: Stamp = Stamp(1);
    const OTHER: Stamp = Stamp(2);

    fn ballot(round: u64) -> Ballot {
        Ballot { round, ..Ballot::default() }
    }

    fn at(round: u64, seq: u64) -> Position {
        Position { ballot: ballot(round), seq }
    }

    fn record(text: &str) -> (Bytes, Bytes) {
        (text.as_bytes().into(), text.as_bytes().into())
    }

    fn write(stamp: Stamp, before: Position, position: Position, token: u64) -> Request {
        let put = vec![record(&format!("{}.{}", position.ballot.round, position.seq))];
        Request::Write { stamp, before, position, changes: Arc::new(Changes { time: 7, token, put, gone: vec![] }) }
    }

    fn admit(position: Position, transfer: u128, count: usize, token: u64, stamp: Stamp) -> Request {
        Request::Admit { position, transfer: TransferId(transfer), count, time: 9, token, stamp }
    }

    fn stage(position: Position, transfer: u128, texts: &[&str]) -> Request {
        let piece = texts.iter().map(|text| record(text)).collect();
        Request::Stage { position, transfer: TransferId(transfer), piece }
    }

    /// A member that has the first batch of ballot 2, with token 50.
    fn member() -> Acceptor {
        let mut it = Acceptor::default();
        assert_eq!(it.answer(FIRST, MEMBER, &Request::Promise(ballot(2))), Answer::Stranger(MEMBER));
        assert_eq!(it.answer(FIRST, OTHER, &admit(at(0, 0), 1, 0, 0, MEMBER)), Answer::Done);
        assert_eq!(it.answer(FIRST, OTHER, &write(MEMBER, at(0, 0), at(2, 1), 50)), Answer::Done);
        it
    }

    /// It answers this, and keeps what it has.
    fn refuses(it: &mut Acceptor, request: &Request, answer: &Answer) {
        let before = it.clone();
        assert_eq!(it.answer(FIRST, OTHER, request), *answer, "{request:?}");
        assert_eq!(*it, before, "{request:?}");
    }

    #[test]
    fn a_promise_binds() {
        let mut it = member();
        refuses(&mut it, &Request::Promise(ballot(1)), &Answer::No(ballot(2)));
        let promised = Answer::Promised { stamp: MEMBER, accepted: at(2, 1) };
        assert_eq!(it.answer(FIRST, OTHER, &Request::Promise(ballot(3))), promised);
        refuses(&mut it, &Request::Promise(ballot(3)), &promised);
        refuses(&mut it, &write(MEMBER, at(2, 1), at(2, 2), 51), &Answer::No(ballot(3)));
    }

    #[test]
    fn a_write_fits_or_is_refused() {
        let mut it = member();
        refuses(&mut it, &write(OTHER, at(2, 1), at(2, 2), 51), &Answer::No(ballot(2)));
        refuses(&mut it, &write(MEMBER, at(2, 2), at(2, 3), 51), &Answer::At(at(2, 1)));
        refuses(&mut it, &write(MEMBER, at(2, 1), at(2, 2), 49), &Answer::Low(50));
        // A repeat is one, whatever it would write.
        refuses(&mut it, &write(MEMBER, at(0, 0), at(2, 1), 49), &Answer::Done);
    }

    #[test]
    fn only_the_reader_that_froze_the_content_reads_it() {
        let mut it = member();
        let read = |stamp, round| Request::Read { stamp, ballot: ballot(round), from: Cursor::default() };
        refuses(&mut it, &read(MEMBER, 1), &Answer::No(ballot(2)));
        refuses(&mut it, &read(MEMBER, 3), &Answer::No(ballot(2)));
        refuses(&mut it, &read(OTHER, 2), &Answer::No(ballot(2)));
        let (position, records) = (at(2, 1), vec![record("2.1")]);
        let piece = Answer::Piece { position, time: 7, token: 50, records, next: None };
        refuses(&mut it, &read(MEMBER, 2), &piece);
        // After a loss of memory, who knows the next membership reads what is left.
        assert_eq!(it.answer(SECOND, OTHER, &read(MEMBER, 2)), Answer::Stranger(OTHER));
        assert_eq!(it.answer(SECOND, MEMBER, &read(OTHER, 9)), piece);
    }

    #[test]
    fn a_read_comes_in_pieces() {
        let mut it = member();
        let texts: Vec<String> = (0..PIECE_RECORDS_MAX).map(|number| format!("3.{number}")).collect();
        let put = texts.iter().map(|text| record(text)).collect();
        let changes = Arc::new(Changes { time: 7, token: 50, put, gone: vec![] });
        let write = Request::Write { stamp: MEMBER, before: at(2, 1), position: at(2, 2), changes };
        assert_eq!(it.answer(FIRST, OTHER, &write), Answer::Done);
        let (mut from, mut counts) = (Some(Cursor::default()), vec![]);
        while let Some(cursor) = from {
            let read = Request::Read { stamp: MEMBER, ballot: ballot(2), from: cursor };
            let Answer::Piece { records, next, .. } = it.answer(FIRST, OTHER, &read) else { panic!("no piece") };
            counts.push(records.len());
            from = next;
        }
        assert_eq!(counts, [PIECE_RECORDS_MAX, 1]);
    }

    #[test]
    fn a_new_life_is_a_stranger_with_a_stamp_of_its_own() {
        let mut it = member();
        assert_eq!(it.answer(SECOND, OTHER, &Request::Promise(ballot(9))), Answer::Stranger(OTHER));
        // The stamp stays as long as the life does.
        assert_eq!(it.answer(SECOND, Stamp(3), &write(MEMBER, at(2, 1), at(2, 2), 51)), Answer::Stranger(OTHER));
        assert_eq!(it.answer(Incarnation(3), Stamp(3), &Request::Promise(ballot(9))), Answer::Stranger(Stamp(3)));
    }

    #[test]
    fn a_member_without_its_sequencer_is_a_stranger() {
        let mut it = member();
        it.token = None;
        assert!(matches!(it.seen(FIRST, OTHER), Seen::Votes { .. }), "a beat looks at headers only");
        assert_eq!(it.answer(FIRST, OTHER, &write(MEMBER, at(2, 1), at(2, 2), 1)), Answer::Stranger(OTHER));
        assert_eq!(it.seen(FIRST, Stamp(3)), Seen::Stranger { next: OTHER, written: ballot(2) });
        // It shows what it has, and its sequencer as the lowest.
        let read = Request::Read { stamp: OTHER, ballot: ballot(9), from: Cursor::default() };
        let (position, records) = (at(2, 1), vec![record("2.1")]);
        let piece = Answer::Piece { position, time: 7, token: 0, records, next: None };
        assert_eq!(it.answer(FIRST, Stamp(3), &read), piece);
        // It votes again when it is told of one, and not before.
        refuses(&mut it, &Request::Promise(ballot(3)), &Answer::Stranger(OTHER));
        assert_eq!(it.answer(FIRST, Stamp(3), &admit(at(4, 1), 8, 1, 51, OTHER)), Answer::Again);
        assert_eq!(it.answer(FIRST, Stamp(3), &stage(at(4, 1), 9, &["a"])), Answer::Done);
        assert_eq!(it.answer(FIRST, Stamp(3), &admit(at(4, 1), 9, 1, 51, OTHER)), Answer::Done);
        assert_eq!((it.token, it.votes(FIRST)), (Some(51), true));
    }

    #[test]
    fn a_stranger_is_admitted_to_the_membership_that_it_named() {
        let mut it = member();
        assert_eq!(it.answer(SECOND, OTHER, &stage(at(1, 4), 7, &["a", "b"])), Answer::Done);
        assert_eq!(it.answer(SECOND, Stamp(3), &admit(at(1, 4), 7, 2, 8, MEMBER)), Answer::Stranger(OTHER));
        // A transfer of another number of records, or of another name, is not all there.
        assert_eq!(it.answer(SECOND, Stamp(3), &admit(at(1, 4), 7, 3, 8, OTHER)), Answer::Again);
        assert_eq!(it.answer(SECOND, Stamp(3), &admit(at(1, 4), 8, 2, 8, OTHER)), Answer::Again);
        assert_eq!(it.answer(SECOND, Stamp(3), &stage(at(1, 4), 9, &["a", "b"])), Answer::Done);
        assert_eq!(it.answer(SECOND, Stamp(3), &admit(at(1, 4), 9, 2, 8, OTHER)), Answer::Done);
        // All is as in the snapshot, also what was higher.
        let read = Request::Read { stamp: OTHER, ballot: ballot(1), from: Cursor::default() };
        let records = vec![record("a"), record("b")];
        let piece = Answer::Piece { position: at(1, 4), time: 9, token: 8, records, next: None };
        assert_eq!(it.answer(SECOND, Stamp(3), &read), piece);
        // The second of two that come late changes nothing.
        assert_eq!(it.answer(SECOND, Stamp(3), &admit(at(1, 4), 9, 2, 8, OTHER)), Answer::At(at(1, 4)));
    }

    #[test]
    fn a_member_takes_a_snapshot_of_its_leader_only() {
        let mut it = member();
        assert_eq!(it.answer(FIRST, OTHER, &stage(at(3, 1), 7, &["a"])), Answer::Done);
        refuses(&mut it, &admit(at(3, 1), 7, 1, 8, MEMBER), &Answer::No(ballot(2)));
        refuses(&mut it, &admit(at(2, 2), 7, 1, 8, OTHER), &Answer::No(ballot(2)));
        refuses(&mut it, &admit(at(2, 1), 7, 1, 8, MEMBER), &Answer::At(at(2, 1)));
        assert!(matches!(it.answer(FIRST, OTHER, &Request::Promise(ballot(3))), Answer::Promised { .. }));
        assert_eq!(it.answer(FIRST, OTHER, &admit(at(3, 1), 7, 1, 8, MEMBER)), Answer::Done);
    }
}
