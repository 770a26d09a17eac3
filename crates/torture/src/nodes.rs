//! What the nodes of a quorum keep, as histories have it.

use crate::history::Nanos;
use serde::{Deserialize, Serialize};

/// What a node kept of a partition at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The node's name.
    pub node: String,
    /// The partition.
    pub partition: u16,
    /// When it was asked.
    pub at: Nanos,
    /// Whether it voted: it had not lost its memory, or was brought up to date since.
    pub votes: bool,
    /// The batch that it had taken last: a ballot, and a number.
    pub batch: String,
    /// What is the same wherever this batch is: partition time, sequencer, number of records, and their hash.
    pub content: String,
}

/// Whether all nodes voted in all partitions again, some time after a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Voting {
    /// The kind of the fault.
    pub fault: String,
    /// When it was healed.
    pub healed: Nanos,
    /// When all voted, or when that was no longer waited for.
    pub at: Nanos,
    /// What is missing, if they did not vote by then.
    pub missing: Option<String>,
}
