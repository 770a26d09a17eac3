//! Requests, by what the node has when they are made.

use super::{
    both::Both,
    op::{Pick, What, ballot},
};
use fencepost::testing::store::{
    content::{Bytes, Changes},
    quorum::paxos::{
        acceptor::Acceptor,
        ballot::{Position, Stamp, TransferId},
        classic::{Step, Wish},
        message::{Cursor, Request},
        node::Node,
    },
};
use std::sync::Arc;

pub(crate) fn key(number: u8) -> Bytes {
    match number {
        0 => Bytes::default(),
        1 => [0].into(),
        2 => [0xff, 0xfe].into(),
        3 => b"a b\r\n{x}*".as_slice().into(),
        _ => format!("lock/{number}").into_bytes().into(),
    }
}

pub(crate) fn many(number: u16) -> Bytes {
    format!("many/{number}").into_bytes().into()
}

/// Whether a classic client's or ours.
pub(crate) fn classic_key(partition: u16, number: u8) -> Bytes {
    format!("lock:{partition}/{}", ["a", "é{\r\n", ""][usize::from(number)]).into_bytes().into()
}

/// So long that no key ends by itself, as the twin has no clock.
pub(crate) const CLASSIC_TTL_MS: u64 = 3_600_000;

fn wish_of(wish: u8, seq: u64) -> Wish {
    let value = format!("grant/{}", seq % 3).into_bytes().into();
    match wish {
        0 => Wish::Look,
        1 => Wish::Drop,
        _ => Wish::Hold { value, ms: CLASSIC_TTL_MS },
    }
}

/// Records that a batch puts, and keys that it removes.
type Records = (Vec<(Bytes, Bytes)>, Vec<Bytes>);

impl Both {
    /// Those with these numbers, and so many more, which a batch removes if the node has them.
    fn records(&mut self, put: &[u8], gone: &[u8], count: u16, are_there: bool) -> Records {
        let mut put: Vec<_> = put.iter().map(|number| self.record(key(*number))).collect();
        let mut gone: Vec<_> = gone.iter().map(|number| key(*number)).collect();
        if are_there {
            gone.extend((0..count).map(many));
        } else {
            put.extend((0..count).map(|number| (many(number), Bytes::default())));
        }
        (put, gone)
    }

    pub(crate) fn record(&mut self, key: Bytes) -> (Bytes, Bytes) {
        let number = self.number();
        let lengths = [0, 5, 64, 65, 300];
        (key, vec![number.to_le_bytes()[0]; lengths[usize::try_from(number).unwrap() % lengths.len()]].into())
    }

    /// A request, by what the node has.
    pub(crate) fn request(&mut self, twin: &Node, partition: u16, what: &What) -> Request {
        let acceptor = twin.partitions.get(&partition).cloned().unwrap_or_default();
        let Acceptor { header, token, content, next, staged, classic: _ } = acceptor;
        let votes = header.as_ref().is_some_and(|header| header.incarnation == self.present());
        let (kept, promised, accepted) =
            header.map_or_else(Default::default, |it| (Some(it.stamp), it.promised, it.accepted));
        let named = if votes { kept } else { next.map(|(_, stamp)| stamp) };
        let stamp_of = |pick| match pick {
            Pick::Present => named,
            Pick::Other(number) => [None, next.map(|(_, stamp)| stamp), kept][number % 3],
        };
        let stamp = |pick| stamp_of(pick).unwrap_or(Stamp(7));
        let ballot_of = |pick| match pick {
            Pick::Present => promised,
            Pick::Other(number) => ballot(number),
        };
        let after = |ballot| if ballot == accepted.ballot { accepted.seq + 1 } else { 1 };
        match what {
            What::Promise(number) => Request::Promise(ballot(*number)),
            What::Write { stamp: of, before, ballot: by, token: more, put, gone, many: count } => {
                let stamp = stamp(*of);
                let ballot_by = ballot_of(*by);
                let before = match *before {
                    Pick::Present => accepted,
                    Pick::Other(number) => Position { ballot: ballot(number), seq: number as u64 % 3 },
                };
                let seq = after(ballot_by);
                // No leader writes a batch onto itself.
                let seq = if before == (Position { ballot: ballot_by, seq }) { seq + 1 } else { seq };
                let (put, gone) = self.records(put, gone, *count, content.0.contains_key(&many(0)));
                let token = token.unwrap_or_default().saturating_add_signed(*more);
                let changes = Arc::new(Changes { time: self.number() * 1_000_003, token, put, gone });
                Request::Write { stamp, before, position: Position { ballot: ballot_by, seq }, changes }
            }
            What::Read { stamp: of, ballot } => {
                Request::Read { stamp: stamp(*of), ballot: ballot_of(*ballot), from: Cursor::default() }
            }
            What::Stage { transfer, seq, put } => {
                let position = Position { ballot: promised, seq: accepted.seq + u64::from(*seq) };
                let piece = put.iter().map(|number| self.record(key(*number))).collect();
                Request::Stage { position, transfer: TransferId((*transfer).into()), piece }
            }
            What::Admit { stamp: of, ballot, seq, transfer, is_counted, token } => {
                let stamp = stamp(*of);
                let ready = staged.iter().nth(usize::from(*transfer));
                let off = usize::from(!is_counted);
                let (position, transfer, count) = match ready {
                    Some(((position, transfer), content)) if token % 4 > 0 => {
                        (*position, *transfer, content.0.len() + off)
                    }
                    _ => {
                        let ballot = ballot_of(*ballot);
                        let seq = match *seq {
                            Pick::Present => after(ballot),
                            Pick::Other(number) => number as u64,
                        };
                        let count = usize::try_from(token % 2).unwrap();
                        (Position { ballot, seq }, TransferId((*transfer).into()), count)
                    }
                };
                Request::Admit { position, transfer, count, time: self.number(), token: *token, stamp }
            }
            What::Classic { ballot, seq, key, wish } => {
                let (position, wish) = (Position { ballot: ballot_of(*ballot), seq: *seq }, wish_of(*wish, *seq));
                Request::Classic(Arc::new(Step { position, key: classic_key(partition, *key), wish }))
            }
        }
    }
}
