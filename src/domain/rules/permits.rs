//! The permits of a semaphore: how many its holders use, the limit that is in force, and who may have more of them.

use super::{Lock, Turn, slots::Slots};
use crate::domain::{
    mode::{Mode, PermitLimit, Permits},
    outcome::{AcquireOutcome, SemaphoreView},
    queue::WaiterState,
};
use std::collections::BTreeMap;

/// What the leases of a semaphore, and the offers of it, use together.
#[derive(Clone, Debug)]
pub(super) struct Semaphore {
    /// The limit in force.
    limit: PermitLimit,
    /// The permits of leases and ghosts.
    used: u64,
    /// The permits of offers.
    promised: u64,
    slots: Slots,
    /// How many leases, of which some are ghosts now, were granted under each version of the limit.
    versions: BTreeMap<u64, u32>,
}

impl Semaphore {
    pub(super) fn new(limit: PermitLimit) -> Self {
        Self { limit, used: 0, promised: 0, slots: Slots::default(), versions: BTreeMap::new() }
    }

    /// Whether so many permits are free.
    fn fits(&self, count: u32) -> bool {
        // mutant: offers are not counted
        self.used + self.promised + u64::from(count) <= u64::from(self.limit.permits)
    }

    /// Gives a lease that is granted its permits: those it asked for, the limit in force and a slot.
    pub(super) fn grant(&mut self, count: u32) -> Permits {
        // mutant: slot of several permits
        let slot = (count == 1).then(|| self.slots.take());
        let permits = Permits { count, limit: self.limit, slot };
        self.add(&permits);
        permits
    }

    /// Counts a lease that another leader granted, or a ghost. False if another one has its slot.
    pub(super) fn keep(&mut self, permits: &Permits) -> bool {
        self.limit = self.limit.newer(permits.limit);
        self.add(permits);
        permits.slot.is_none_or(|slot| self.slots.insert(slot))
    }

    fn add(&mut self, permits: &Permits) {
        self.used += u64::from(permits.count);
        *self.versions.entry(permits.limit.version).or_default() += 1;
    }

    /// A lease has ended, or a ghost is gone.
    pub(super) fn remove(&mut self, permits: &Permits) {
        // mutant: permits leak
        self.used -= u64::from(permits.count);
        if let Some(slot) = permits.slot {
            self.slots.remove(slot);
        }
        let version = permits.limit.version;
        if let Some(count) = self.versions.get_mut(&version) {
            *count -= 1;
            if *count == 0 {
                self.versions.remove(&version);
            }
        }
    }

    pub(super) fn promise(&mut self, count: u32) {
        self.promised += u64::from(count);
    }

    /// An offer of so many permits was claimed or withdrawn.
    pub(super) fn withdraw(&mut self, count: u32) {
        self.promised -= u64::from(count);
    }

    /// What others see, without the permits that are counted although their time is over.
    pub(super) fn view(&self, overdue: u64) -> SemaphoreView {
        SemaphoreView { used: self.used - overdue, limit: self.limit }
    }

    /// The limit in force, if there are leases or ghosts and none was granted under it. Offers do not outlive the
    /// leader, and without a lease nothing else keeps the semaphore.
    fn limit_of_no_lease(&self) -> Option<PermitLimit> {
        let (newest, _) = self.versions.last_key_value()?;
        (*newest != self.limit.version).then_some(self.limit)
    }

    /// `permits` are those of leases and ghosts.
    pub(super) fn check<'a>(&self, permits: impl Iterator<Item = &'a Permits>, promised: u64) {
        assert_eq!(self.promised, promised, "each offer is counted");
        let permits: Vec<_> = permits.collect();
        let used: u64 = permits.iter().map(|permits| u64::from(permits.count)).sum();
        assert_eq!(self.used, used, "each lease and ghost is counted");
        let single = permits.iter().filter(|permits| permits.count == 1).count();
        assert_eq!(self.slots.count() as usize, single, "each lease or ghost with one permit has a slot of its own");
        assert!(permits.iter().all(|permits| permits.limit.version <= self.limit.version), "the newest limit counts");
    }
}

impl Lock {
    /// The limit of the semaphore in force; `None` if it is neither held, by ghosts neither, nor waited for.
    pub fn permit_limit(&self) -> Option<PermitLimit> {
        let held = self.semaphore().map(|semaphore| semaphore.limit);
        let queued = self.queue.as_ref().and_then(|queue| queue.permit_limit());
        held.or(queued)
    }

    /// The limit in force, if no lease or ghost of the semaphore tells it: what is to be kept beside these.
    pub fn permit_limit_to_keep(&self) -> Option<PermitLimit> {
        self.semaphore()?.limit_of_no_lease()
    }

    fn semaphore(&self) -> Option<&Semaphore> {
        self.shares.as_ref()?.semaphore()
    }

    /// Whether these permits could be granted or offered now, as far as limits go.
    pub(super) fn fits(&self, permits: &Permits) -> bool {
        match self.semaphore() {
            Some(semaphore) => semaphore.fits(permits.count),
            None => self.permit_limit().is_none_or(|limit| permits.count <= limit.permits),
        }
    }

    /// Whether a request of this mode asks for more permits than there are.
    pub(super) fn is_exceeded_by(&self, mode: &Mode) -> bool {
        self.permit_limit().is_some_and(|limit| mode.exceeds(limit))
    }

    /// Whether a lease, a ghost, an offer or a request in the queue is of the other mode that stands beside others.
    fn is_of_other_mode(&self, mode: &Mode) -> bool {
        let queue = self.queue.as_ref();
        match mode {
            Mode::Exclusive => false,
            Mode::Shared => self.semaphore().is_some() || queue.is_some_and(|queue| queue.has_semaphores()),
            Mode::Semaphore(_) => {
                let is_shared = self.shares.as_ref().is_some_and(|shares| shares.semaphore().is_none());
                is_shared || queue.is_some_and(|queue| queue.has_shared())
            }
        }
    }
}

impl Turn<'_> {
    /// Refuses a new request whose mode, or whose limit, does not fit what is in force; a newer limit replaces that.
    pub(super) fn agree(&mut self, mode: &Mode) -> Option<AcquireOutcome> {
        // Nothing shares the lock with a program that takes it for something else.
        // mutant: reader beside a semaphore
        if self.lock.is_of_other_mode(mode) {
            return Some(AcquireOutcome::ModeMismatch);
        }
        let (Some(asked), Some(limit)) = (mode.permits(), self.lock.permit_limit()) else { return None };
        let is_other = asked.limit.version == limit.version && asked.limit.permits != limit.permits;
        // mutant: two limits of one version
        if is_other {
            return Some(AcquireOutcome::LimitMismatch(limit));
        }
        // mutant: older limit replaces a newer one
        if limit.version < asked.limit.version {
            self.replace_limit(limit, asked.limit);
            return None;
        }
        mode.exceeds(limit).then_some(AcquireOutcome::LimitMismatch(limit))
    }

    fn replace_limit(&mut self, before: PermitLimit, limit: PermitLimit) {
        if let Some(queue) = &mut self.lock.queue {
            queue.agree(limit);
        }
        if let Some(semaphore) = self.lock.shares.as_mut().and_then(|shares| shares.semaphore_mut()) {
            semaphore.limit = limit;
        }
        if limit.permits < before.permits {
            // What was promised may be more than there is now.
            // mutant: offer above a lowered limit
            self.withdraw_shared(|_| true, WaiterState::Waiting);
        }
        // Waiters see a higher limit at once (CURATOR-75).
        // mutant: raised limit wakes nobody
        self.promote();
    }
}
