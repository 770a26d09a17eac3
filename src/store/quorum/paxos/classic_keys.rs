//! The classic keys of a node: the pure twin of Redis' behaviour.

use super::{
    ballot::Position,
    classic::{KeyState, Step, Wish},
    message::Answer,
};
use crate::store::content::Bytes;
use std::collections::BTreeMap;

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
    pub(crate) fn step(&mut self, Step { position, key, wish }: &Step) -> Answer {
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
