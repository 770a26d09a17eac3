//! Classic keys: what clients of the classic recipe, `SET name value NX PX ttl`, see of locks.
//!
//! With one node, a lock can be the same lock as a key of that Redis. Before the leader grants the lock it has the node
//! set the key, in a step of its own. Beside the key the node keeps a *copy* of what a leader has set: a key that is
//! equal to its copy is ours, and any other key, of whatever type, is a classic client's.

use super::{ballot::Position, content::Bytes, message::Answer};
use std::collections::BTreeMap;

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

/// What a node keeps of classic keys: the pure twin of what Redis does. It has no clock, so no key ends by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClassicKeys(pub BTreeMap<Bytes, ClassicKey>);

/// A classic key, and the copy of what a leader has set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClassicKey {
    /// What clients see.
    pub value: Option<ClassicValue>,
    /// What a leader has set, and by which step.
    pub copy: Option<(Position, Bytes)>,
}

/// The value of a classic key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClassicValue {
    /// A text.
    Text(Bytes),
    /// Something of another type.
    Other,
}

impl ClassicKeys {
    /// Carries a step out.
    pub(super) fn step(&mut self, Step { position, key, wish }: &Step) -> Answer {
        let ClassicKey { value, copy } = self.0.get(key).cloned().unwrap_or_default();
        if let Some((at, _)) = copy.as_ref().filter(|(at, _)| at.ballot == position.ballot && position < at) {
            return Answer::At(*at);
        }
        let ours = copy.map(|(_, copied)| ClassicValue::Text(copied));
        if value.is_some() && value != ours {
            return Answer::Classic(KeyState::Theirs(None));
        }
        Answer::Classic(match wish {
            Wish::Look if value.is_some() => KeyState::Ours,
            Wish::Look => KeyState::Free,
            Wish::Hold { value, .. } => {
                let (text, copy) = (ClassicValue::Text(value.clone()), (*position, value.clone()));
                self.0.insert(key.clone(), ClassicKey { value: Some(text), copy: Some(copy) });
                KeyState::Ours
            }
            Wish::Drop => {
                self.0.remove(key);
                KeyState::Free
            }
        })
    }
}
