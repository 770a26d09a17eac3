//! The journal of a turn: the locks that it changed.

use super::Slot;
use crate::domain::rules::Lock;

/// Follows what each turn changes in its lock.
pub trait Journal {
    /// What it notes beside each lock.
    type Note: Default;
    /// What it needs to know of a lock before a turn.
    type Before;

    /// A turn is about to begin.
    fn before(&self, lock: &Lock) -> Self::Before;

    /// The turn has ended. The slot of this number is not idle, or was not before the turn.
    fn after(&mut self, number: usize, slot: &mut Slot<Self::Note>, before: Self::Before);

    /// Whether a lock has to stay although it is idle.
    fn holds(note: &Self::Note) -> bool;
}

/// For locks that live in this memory alone.
#[derive(Clone, Copy, Debug)]
pub struct NoJournal;

impl Journal for NoJournal {
    type Before = ();
    type Note = ();

    fn before(&self, _: &Lock) {}

    fn after(&mut self, _: usize, slot: &mut Slot, (): ()) {
        slot.lock.take_changed_shares();
    }

    fn holds((): &()) -> bool {
        false
    }
}
