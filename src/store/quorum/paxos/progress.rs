//! The leader's knowledge of one node: acknowledged batches, or the progress of a snapshot.

use super::{
    ballot::{Position, Stamp, TransferId},
    message::Request,
};
use crate::store::content::Bytes;
use std::collections::BTreeSet;

/// A membership of a node, and where it stood when it promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Membership {
    pub(crate) stamp: Stamp,
    pub(crate) accepted: Position,
}

/// Records of one staged piece, at most: a node is not to be busy for long with one request.
pub const STAGED_RECORDS_MAX: usize = 512;

/// Bytes of the keys and records of one staged piece, at most, unless one record alone has more.
pub const STAGED_BYTES_MAX: usize = 256 * 1024;

/// Where a node stands, as far as its leader knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Progress {
    /// Not known, or no longer. It is asked.
    Unknown { asked: bool },
    /// It has a prefix of the leader's batches, and gets the next ones.
    Follows { stamp: Stamp, sent: u64 },
    /// It is somewhere else, or too far behind. It gets a snapshot.
    Behind { stamp: Stamp, transfer: Option<Transfer> },
    /// It lost its memory, and does not vote. It gets a snapshot when enough others have confirmed the leader.
    Stranger { next: Stamp, asked: BTreeSet<usize>, confirmed: BTreeSet<usize>, transfer: Option<Transfer> },
}

/// A snapshot on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transfer {
    pub(crate) id: TransferId,
    /// Requests that are not sent yet, the last one first.
    left: Vec<(Purpose, Request)>,
}

/// What a snapshot is beside its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    pub(crate) position: Position,
    pub(crate) transfer: TransferId,
    pub(crate) time: u64,
    pub(crate) token: u64,
    pub(crate) stamp: Stamp,
}

impl Transfer {
    /// Cuts the records into pieces that are staged, one after the other, and then admitted as one.
    pub(crate) fn new(snapshot: Snapshot, records: impl IntoIterator<Item = (Bytes, Bytes)>) -> Self {
        let Snapshot { position, transfer, time, token, stamp } = snapshot;
        let stage = |piece: &mut Vec<(Bytes, Bytes)>| {
            (Purpose::Stage, Request::Stage { position, transfer, piece: piece.drain(..).collect() })
        };
        let (mut left, mut piece, mut bytes, mut count) = (Vec::new(), Vec::new(), 0, 0);
        for (key, record) in records {
            let size = key.len() + record.len();
            if piece.len() == STAGED_RECORDS_MAX || (bytes + size > STAGED_BYTES_MAX && !piece.is_empty()) {
                left.push(stage(&mut piece));
                bytes = 0;
            }
            piece.push((key, record));
            (bytes, count) = (bytes + size, count + 1);
        }
        if !piece.is_empty() {
            left.push(stage(&mut piece));
        }
        let admit = Request::Admit { position, transfer, count, time, token, stamp };
        left.push((Purpose::Admit { stamp, position, transfer }, admit));
        left.reverse();
        Self { id: transfer, left }
    }

    /// The next request, until there is none.
    pub(crate) fn next(&mut self) -> Option<(Purpose, Request)> {
        self.left.pop()
    }
}

/// What a leader's request is for. The caller gives it back with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Where does the node stand?
    Look,
    /// Do you still promise my ballot? Asked for this node, after it named this stamp.
    Confirm {
        /// The node to be admitted.
        stranger: usize,
        /// Its next membership.
        next: Stamp,
    },
    /// Writes a batch.
    Write {
        /// The membership.
        stamp: Stamp,
        /// The batch.
        seq: u64,
    },
    /// Stages a piece.
    Stage,
    /// Replaces the content.
    Admit {
        /// The membership.
        stamp: Stamp,
        /// The snapshot's batch.
        position: Position,
        /// The transfer.
        transfer: TransferId,
    },
    /// A step at a classic key, of this number.
    Classic {
        /// The number.
        number: u64,
    },
}
