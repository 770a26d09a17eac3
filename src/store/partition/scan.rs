//! Listing the locks of a partition.

use super::{Journal, Partition, Slot};
use crate::{
    domain::{features::Features, limits::PAGE_BYTES_MAX, name::LockName, outcome::LockView, time::StoreTime},
    store::Page,
};

/// Slots that one page of a listing scans, so that a rare prefix among millions of locks does not stall the server.
pub const SLOTS_PER_PAGE: usize = 16 * 1024;
/// The bytes of a page that count as much as one scanned slot.
const BYTES_PER_SLOT: usize = PAGE_BYTES_MAX / SLOTS_PER_PAGE;

impl<J: Journal> Partition<J> {
    /// The locks that something is known of and that have no exclusive lease.
    pub fn without_lease(&self) -> impl Iterator<Item = &Slot<J::Note>> {
        self.slots.iter().map(|(_, slot)| slot).filter(|slot| slot.lock.lease().is_none())
    }

    /// What a server has to understand that holds these leases, and has these requests wait.
    pub fn needs(&self) -> Features {
        self.slots.iter().map(|(_, slot)| slot.lock.needs()).fold(Features::NONE, Features::with)
    }

    /// The locks that somebody waits for, or did a moment ago.
    pub fn waited_for(&self) -> impl Iterator<Item = &Slot<J::Note>> {
        self.slots.iter().map(|(_, slot)| slot).filter(|slot| slot.lock.is_waited_for())
    }

    /// Adds the locks in use with this prefix, from slot `from` on. Returns the slot to continue from; `None` at the
    /// end of the partition.
    pub fn scan(
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
                let view = slot.lock.view(now, None);
                *budget = budget.saturating_sub(Page::bytes(&slot.name, &view) / BYTES_PER_SLOT);
                found.push((slot.name.clone(), view));
            }
        }
        None
    }
}
