//! Locks in the memory of one server, with the rules that act on them: what the memory store consists of, and what the
//! leader of a partition of the quorum store keeps.
//!
//! A [`Journal`] follows what turns change. The memory store needs none; a leader's ([`Outbox`]) collects what goes to
//! the nodes.

mod journal;
mod outbox;
mod rebuild;
pub mod record;
mod scan;
mod shares;
#[cfg(test)]
mod tests;

pub use journal::{Journal, NoJournal};
pub use outbox::{BATCH_BYTES_MAX, BATCH_RECORDS_MAX, Outbox, RENEWAL_UNWRITTEN_TTL_MAX};
pub use rebuild::{Renewals, Unreadable};
pub use scan::SLOTS_PER_PAGE;

use crate::domain::{name::LockName, rules::Lock, time::StoreTime, token::Sequencer};
use hashbrown::HashTable;
use slab::Slab;
use std::{cmp::Reverse, collections::BinaryHeap};

/// Void timers that are not worth removing.
const VOID_TIMERS: usize = 32;

/// A lock.
#[derive(Debug)]
pub struct Slot<N = ()> {
    /// Its name.
    pub name: LockName,
    /// Its state.
    pub lock: Lock,
    hash: u64,
    /// The time of the one timer that counts for this slot. Other timers of it in the heap are void.
    timer: Option<StoreTime>,
    /// What the journal notes beside it.
    note: N,
}

/// The name of a lock, and the hash by which it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashedName {
    /// The name.
    pub name: LockName,
    /// Its hash.
    pub hash: u64,
}

/// Locks, and the sequencer that draws their tokens.
///
/// A name is stored once, in its slot; the table holds slot numbers, and a timer holds one too. A timer that is too
/// early costs one look, so a renewal sets none: the old one fires, finds the lease alive, and is set anew.
pub struct Partition<J: Journal = NoJournal> {
    slots: Slab<Slot<J::Note>>,
    by_name: HashTable<usize>,
    timers: BinaryHeap<Reverse<(StoreTime, usize)>>,
    sequencer: Sequencer,
    journal: J,
}

impl<N> Slot<N> {
    /// The hash of its name.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// What it is found by.
    pub fn hashed_name(&self) -> HashedName {
        HashedName { name: self.name.clone(), hash: self.hash }
    }
}

impl Partition {
    /// Without locks, and nothing of it is kept elsewhere.
    pub fn new(sequencer: Sequencer) -> Self {
        Self::with_journal(sequencer, NoJournal)
    }
}

impl<J: Journal> Partition<J> {
    fn with_journal(sequencer: Sequencer, journal: J) -> Self {
        Self { slots: Slab::new(), by_name: HashTable::new(), timers: BinaryHeap::new(), sequencer, journal }
    }

    /// The highest token that was drawn.
    pub fn token(&self) -> u64 {
        self.sequencer.counter()
    }

    /// A lock, if it has any state. `hash` is that of its name, here and below: the same at each call.
    pub fn find(&self, name: &LockName, hash: u64) -> Option<&Slot<J::Note>> {
        self.number(name, hash).and_then(|number| self.slots.get(number))
    }

    /// Runs one turn on a lock, which need not exist, and keeps the lock if it has any state afterwards.
    pub fn with_lock<R>(
        &mut self,
        name: &LockName,
        hash: u64,
        turn: impl FnOnce(&mut Slot<J::Note>, &mut Sequencer) -> R,
    ) -> R {
        if let Some(number) = self.number(name, hash) {
            return self.turn_on(number, turn);
        }
        let mut slot = Slot { name: name.clone(), lock: Lock::default(), hash, timer: None, note: J::Note::default() };
        let before = self.journal.before(&slot.lock);
        let outcome = turn(&mut slot, &mut self.sequencer);
        if !slot.lock.is_idle() {
            let number = self.insert(slot);
            self.journal.after(number, &mut self.slots[number], before);
            self.put_back(number);
        }
        outcome
    }

    /// Runs one turn on the next lock whose timer is due, if there is one.
    pub fn with_next_due<R>(
        &mut self,
        now: StoreTime,
        turn: impl FnOnce(&mut Slot<J::Note>, &mut Sequencer) -> R,
    ) -> Option<R> {
        while let Some(&Reverse((due, number))) = self.timers.peek() {
            if now < due {
                return None;
            }
            self.timers.pop();
            if let Some(slot) = self.slots.get_mut(number).filter(|slot| slot.timer == Some(due)) {
                slot.timer = None;
                return Some(self.turn_on(number, turn));
            }
        }
        None
    }

    /// Runs one turn on each lock that is waited for, among so many slots from `from` on. Returns the slot to continue
    /// from; `None` at the end of the partition.
    pub fn with_waited_for(
        &mut self,
        from: usize,
        slots: usize,
        mut turn: impl FnMut(&mut Slot<J::Note>, &mut Sequencer),
    ) -> Option<usize> {
        let past = from.saturating_add(slots);
        for number in from..past.min(self.slots.capacity()) {
            if self.slots.get(number).is_some_and(|slot| slot.lock.is_waited_for()) {
                self.turn_on(number, &mut turn);
            }
        }
        (past < self.slots.capacity()).then_some(past)
    }

    /// The earliest timer.
    pub fn next_due(&self) -> Option<StoreTime> {
        self.timers.peek().map(|Reverse((due, _))| *due)
    }

    fn turn_on<R>(&mut self, number: usize, turn: impl FnOnce(&mut Slot<J::Note>, &mut Sequencer) -> R) -> R {
        let slot = &mut self.slots[number];
        let before = self.journal.before(&slot.lock);
        let outcome = turn(slot, &mut self.sequencer);
        self.journal.after(number, slot, before);
        self.put_back(number);
        outcome
    }

    fn number(&self, name: &LockName, hash: u64) -> Option<usize> {
        self.by_name.find(hash, |number| self.slots.get(*number).is_some_and(|slot| slot.name == *name)).copied()
    }

    fn insert(&mut self, slot: Slot<J::Note>) -> usize {
        let hash = slot.hash;
        let number = self.slots.insert(slot);
        let slots = &self.slots;
        self.by_name.insert_unique(hash, number, |number| slots[*number].hash);
        number
    }

    /// Removes a lock that is idle, and sets the timer of one that is not.
    fn put_back(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        #[cfg(debug_assertions)]
        slot.lock.check();
        if slot.lock.is_idle() {
            if J::holds(&slot.note) {
                return;
            }
            if let Ok(entry) = self.by_name.find_entry(slot.hash, |other| *other == number) {
                entry.remove();
            }
            self.slots.remove(number);
            self.forget_void_timers();
            return;
        }
        if let Some(due) = slot.lock.next_due()
            && slot.timer.is_none_or(|timer| due < timer)
        {
            slot.timer = Some(due);
            self.timers.push(Reverse((due, number)));
            self.forget_void_timers();
        }
    }

    /// Removes void timers once they are more than half of all. A lease that is released leaves a timer behind, which
    /// would stay until its TTL is over, perhaps for a day. Per timer, this costs as much as popping it.
    fn forget_void_timers(&mut self) {
        if self.timers.len() > 2 * self.slots.len() + VOID_TIMERS {
            let slots = &self.slots;
            self.timers
                .retain(|Reverse((due, number))| slots.get(*number).is_some_and(|slot| slot.timer == Some(*due)));
            self.timers.shrink_to(2 * slots.len() + VOID_TIMERS);
        }
    }
}

#[cfg(test)]
impl<J: Journal> Partition<J> {
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        (self.slots.len(), self.by_name.len(), self.timers.len())
    }

    pub(super) fn any_lease_of(&self, name: &LockName) -> bool {
        self.slots.iter().any(|(_, slot)| slot.name == *name && slot.lock.lease().is_some())
    }
}
