//! Classic keys: what clients of the classic recipe, `SET name value NX PX ttl`, see of locks.
//!
//! With one node, a lock can be the same lock as a key of that Redis. Before the leader grants the lock it has the node
//! set the key, in a step of its own. Beside the key the node keeps a *copy* of what a leader has set: a key that is
//! equal to its copy is ours, and any other key, of whatever type, is a classic client's.

use super::ballot::Position;
use crate::store::content::Bytes;

/// A step at a classic key. Repeated, it does the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Step {
    /// The leader's ballot, and its count of steps. The node takes steps of the ballot that it has promised, so a
    /// leader that was deposed touches no key; and no step that is older than what stands there.
    pub position: Position,
    /// The key.
    pub key: Bytes,
    /// What is to be done, unless the key is a classic client's.
    pub wish: Wish,
}

/// What is to be done at a classic key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wish {
    /// Nothing.
    Look,
    /// It is to have this value, and to end after so many milliseconds.
    Hold {
        /// The value.
        value: Bytes,
        /// Its TTL.
        ms: u64,
    },
    /// It is to be deleted.
    Drop,
}

/// What a step has found, or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyState {
    /// There is no key.
    Free,
    /// The key is ours.
    Ours,
    /// The key is a classic client's, and ends after so many milliseconds, if it ends by itself. Nothing was done.
    Theirs(Option<u64>),
}
