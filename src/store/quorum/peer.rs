//! What a leader knows of one node.

use super::{
    ballot::{Position, Stamp, TransferId},
    message::Request,
};
use std::collections::BTreeSet;

/// Where a node stands, as far as its leader knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Standing {
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
pub(super) struct Transfer {
    pub(super) id: TransferId,
    /// Requests that are not sent yet, the last one first.
    pub(super) left: Vec<Request>,
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
}
