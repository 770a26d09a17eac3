//! Requests of servers to a node about one partition, and the node's answers.

use super::{
    ballot::{Ballot, Position, Stamp, TransferId},
    classic::{KeyState, Step},
};
use crate::store::content::{Bytes, Changes};
use std::sync::Arc;

/// Where a read goes on. Only the node that made it knows what it means; the default is the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cursor(pub Bytes);

/// A request to a node about one partition. Each may be repeated, and may arrive late.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    /// Asks the node to heed no lower ballot from now on. A candidate asks twice; a leader asks to confirm that it is
    /// the leader, and to learn where the node stands. Answers: Promised, No, Stranger.
    Promise(Ballot),
    /// Writes one batch onto the one before it. Answers: Done, At, Low, No, Stranger.
    Write {
        /// The membership that the leader knows.
        stamp: Stamp,
        /// The batch that has to be there.
        before: Position,
        /// This batch.
        position: Position,
        /// What it changes.
        changes: Arc<Changes>,
    },
    /// Reads a piece of what the node keeps. It is frozen while the node's promise stands. A record may come twice.
    /// Answers: Piece, No, Stranger.
    Read {
        /// The membership whose content is read; a stranger's future one reads what a stranger kept.
        stamp: Stamp,
        /// The reader's ballot.
        ballot: Ballot,
        /// Where the piece begins.
        from: Cursor,
    },
    /// Lays a piece of a snapshot beside the content. Answers: Done.
    Stage {
        /// The snapshot's batch.
        position: Position,
        /// The transfer.
        transfer: TransferId,
        /// Some of its records.
        piece: Arc<[(Bytes, Bytes)]>,
    },
    /// Replaces the content by a snapshot that was staged. It begins the membership of a stranger. Answers: Done, At,
    /// Again, No, Stranger.
    Admit {
        /// The snapshot's batch: all that its leader has written, acknowledged or not.
        position: Position,
        /// The transfer.
        transfer: TransferId,
        /// How many records were staged.
        count: usize,
        /// The partition's time, in microseconds.
        time: u64,
        /// The sequencer, also if it is lower than the node's.
        token: u64,
        /// The membership: the present one of a voting node, the next one of a stranger.
        stamp: Stamp,
    },
    /// A step of the leader at a classic key, which is no part of the content. Answers: Classic, At, No, Stranger.
    Classic(Arc<Step>),
}

impl Request {
    /// The bytes of the keys and records that it carries.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Write { changes, .. } => {
                bytes_of(&changes.put) + changes.gone.iter().map(|key| key.len()).sum::<usize>()
            }
            Self::Stage { piece, .. } => bytes_of(piece),
            Self::Promise(_) | Self::Read { .. } | Self::Admit { .. } | Self::Classic(_) => 0,
        }
    }
}

fn bytes_of(records: &[(Bytes, Bytes)]) -> usize {
    records.iter().map(|(key, record)| key.len() + record.len()).sum()
}

/// A node's answer to a request about one partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    /// The promise is given.
    Promised {
        /// The node's membership.
        stamp: Stamp,
        /// The last batch that it has.
        accepted: Position,
    },
    /// The request was carried out, now or before.
    Done,
    /// Nothing was done: the node has promised this ballot, or is in another membership.
    No(Ballot),
    /// Nothing was done: the last batch of the node is this one.
    At(Position),
    /// Nothing was done: the node's sequencer is higher, because somebody raised it by hand.
    Low(u64),
    /// Nothing was done: not all of the snapshot is there. It has to be staged again, as another transfer.
    Again,
    /// Nothing was done: the node lost its memory of this partition, and does not vote. This stamp names its next
    /// membership.
    Stranger(Stamp),
    /// A piece of the content.
    Piece {
        /// The batch that the content stands at.
        position: Position,
        /// The partition's time, in microseconds.
        time: u64,
        /// The sequencer.
        token: u64,
        /// Records, in no particular order.
        records: Vec<(Bytes, Bytes)>,
        /// Where the next piece begins; `None` after the last one.
        next: Option<Cursor>,
    },
    /// The step was carried out, now or before, unless the key is a classic client's.
    Classic(KeyState),
}
