//! One shard of the store: locks in slots, found by name, with their timers.

use crate::{
    domain::{
        limits::PAGE_BYTES_MAX, name::LockName, outcome::LockView, rules::Lock, time::StoreTime, token::Sequencer,
    },
    store::Page,
};
use hashbrown::HashTable;
use slab::Slab;
use std::{cmp::Reverse, collections::BinaryHeap};

/// Void timers that are not worth removing.
const VOID_TIMERS: usize = 32;

/// Slots that one page of a listing scans, so that a rare prefix among millions of locks does not stall the server.
pub(super) const SLOTS_PER_PAGE: usize = 16 * 1024;
/// The bytes of a page that count as much as one scanned slot.
const BYTES_PER_SLOT: usize = PAGE_BYTES_MAX / SLOTS_PER_PAGE;

/// A lock.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) name: LockName,
    pub(super) lock: Lock,
    hash: u64,
    /// The time of the one timer that counts for this slot. Other timers of it in the heap are void.
    timer: Option<StoreTime>,
}

/// Locks whose names share a hash prefix, and the sequencer of their bucket.
///
/// A name is stored once, in its slot; the table holds slot numbers, and a timer holds one too. A timer that is too
/// early costs one look, so a renewal sets none: the old one fires, finds the lease alive, and is set anew.
pub(super) struct Shard {
    slots: Slab<Slot>,
    by_name: HashTable<usize>,
    timers: BinaryHeap<Reverse<(StoreTime, usize)>>,
    sequencer: Sequencer,
}

impl Shard {
    pub(super) fn new() -> Self {
        Self {
            slots: Slab::new(),
            by_name: HashTable::new(),
            timers: BinaryHeap::new(),
            sequencer: Sequencer::forgotten(),
        }
    }

    pub(super) fn find(&self, name: &LockName, hash: u64) -> Option<&Slot> {
        self.number(name, hash).and_then(|number| self.slots.get(number))
    }

    /// Acts on a lock, which need not exist, and keeps it if it has any state afterwards.
    pub(super) fn with_lock<R>(
        &mut self,
        name: &LockName,
        hash: u64,
        act: impl FnOnce(&mut Slot, &mut Sequencer) -> R,
    ) -> R {
        if let Some(number) = self.number(name, hash) {
            let outcome = act(&mut self.slots[number], &mut self.sequencer);
            self.put_back(number);
            return outcome;
        }
        let mut slot = Slot { name: name.clone(), lock: Lock::default(), hash, timer: None };
        let outcome = act(&mut slot, &mut self.sequencer);
        if !slot.lock.is_idle() {
            let number = self.slots.insert(slot);
            let slots = &self.slots;
            self.by_name.insert_unique(hash, number, |number| slots[*number].hash);
            self.put_back(number);
        }
        outcome
    }

    /// Acts on the next lock whose timer is due, if there is one.
    pub(super) fn with_next_due<R>(
        &mut self,
        now: StoreTime,
        act: impl FnOnce(&mut Slot, &mut Sequencer) -> R,
    ) -> Option<R> {
        while let Some(&Reverse((due, number))) = self.timers.peek() {
            if now < due {
                return None;
            }
            self.timers.pop();
            if let Some(slot) = self.slots.get_mut(number).filter(|slot| slot.timer == Some(due)) {
                slot.timer = None;
                let outcome = act(slot, &mut self.sequencer);
                self.put_back(number);
                return Some(outcome);
            }
        }
        None
    }

    /// The earliest timer.
    pub(super) fn next_due(&self) -> Option<StoreTime> {
        self.timers.peek().map(|Reverse((due, _))| *due)
    }

    /// Adds the locks in use with this prefix, from slot `from` on. Returns the slot to continue from; `None` at the
    /// end of the shard.
    pub(super) fn scan(
        &self,
        from: usize,
        budget: &mut usize,
        limit: usize,
        prefix: &str,
        now: StoreTime,
        found: &mut Vec<(LockName, LockView)>,
    ) -> Option<usize> {
        for number in from..self.slots.capacity() {
            if found.len() >= limit || *budget == 0 {
                return Some(number);
            }
            *budget -= 1;
            if let Some(slot) = self.slots.get(number)
                && slot.name.as_str().starts_with(prefix)
                && slot.lock.is_in_use(now)
            {
                let view = slot.lock.view(now);
                *budget = budget.saturating_sub(Page::bytes(&slot.name, &view) / BYTES_PER_SLOT);
                found.push((slot.name.clone(), view));
            }
        }
        None
    }

    fn number(&self, name: &LockName, hash: u64) -> Option<usize> {
        self.by_name.find(hash, |number| self.slots.get(*number).is_some_and(|slot| slot.name == *name)).copied()
    }

    fn put_back(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        #[cfg(debug_assertions)]
        slot.lock.check();
        if slot.lock.is_idle() {
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
impl Shard {
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        (self.slots.len(), self.by_name.len(), self.timers.len())
    }

    pub(super) fn any_lease_of(&self, name: &LockName) -> bool {
        self.slots.iter().any(|(_, slot)| slot.name == *name && slot.lock.lease().is_some())
    }
}
