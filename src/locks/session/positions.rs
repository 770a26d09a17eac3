//! Queue positions that a session has to look up.

use crate::sync::Mutex;
use std::{
    collections::{VecDeque, vec_deque},
    sync::Arc,
};

/// The most positions that one turn looks up.
const LOOKS_AT_ONCE: usize = 1_024;

/// The operations whose queue position is to be looked up.
#[derive(Default)]
pub(super) struct Positions {
    /// Those whose calls were queued since the last look. The calls add themselves.
    queued: Arc<Mutex<Vec<u64>>>,
    to_look: VecDeque<u64>,
}

impl Positions {
    /// Where a call adds its operation when it is queued.
    pub(super) fn queued(&self) -> Arc<Mutex<Vec<u64>>> {
        self.queued.clone()
    }

    /// Whether calls were queued since the last look.
    pub(super) fn any_queued(&self) -> bool {
        !self.queued.lock().is_empty()
    }

    /// Schedules a look at the operations that were queued since the last look.
    pub(super) fn look_at_queued(&mut self) {
        self.to_look.extend(self.queued.lock().drain(..));
    }

    /// Schedules a look at these operations, in place of all others.
    pub(super) fn look_at(&mut self, operations: impl Iterator<Item = u64>) {
        self.to_look = operations.collect();
    }

    /// Whether a look is scheduled.
    pub(super) fn is_looking(&self) -> bool {
        !self.to_look.is_empty()
    }

    /// The operations to look at now.
    pub(super) fn take_some(&mut self) -> vec_deque::Drain<'_, u64> {
        let some = self.to_look.len().min(LOOKS_AT_ONCE);
        self.to_look.drain(..some)
    }
}
