//! The memory of ended requests, which makes late duplicates harmless. One list per lock, bounded by time.

mod index;

use super::{
    ids::{LeaseId, RequestId},
    lease::LeaseEnd,
    limits::ENDED_MEMORY,
    time::StoreTime,
    token::FencingToken,
};
use index::{Index, Key};
use std::collections::VecDeque;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    /// Its lease ended.
    Lease(EndedLease),
    /// Its wait ended without the lock, and it was told so or will be.
    TimedOut,
    /// Its calls were dropped and no retry came in time.
    Abandoned,
    /// Not an end: this attempt, which was not the first, was refused. Older attempts may still be on their way, and
    /// nobody listens to them any more.
    Refused(u32),
}

/// A lease that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedLease {
    /// Which.
    pub lease_id: LeaseId,
    /// The highest token among the lock's leases that have ended, as far as they are remembered: its own, unless it was
    /// shared. `None` if that is not known.
    pub token: Option<FencingToken>,
    /// How it ended.
    pub end: LeaseEnd,
    /// What the next holder of the lock hears: of a shared lease, the worse of its end and of what its own holder
    /// heard. So a writer can learn that the writer before died, though readers came between.
    pub handed_on: LeaseEnd,
}

/// A request that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub request: RequestId,
    /// The parameters that its id was bound to.
    pub fingerprint: u64,
    /// How.
    pub end: RequestEnd,
    /// When.
    pub at: StoreTime,
}

impl Ended {
    fn lease(&self) -> Option<LeaseId> {
        match self.end {
            RequestEnd::Lease(lease) => Some(lease.lease_id),
            _ => None,
        }
    }

    /// Until when it is remembered (exclusive).
    pub fn until(&self) -> StoreTime {
        // mutant: memory is short
        self.at.after(ENDED_MEMORY)
    }
}

/// From this many entries on an index is kept; below it scanning the list is cheaper.
const INDEX_FROM: usize = 16;

/// The requests of one lock that ended lately.
#[derive(Clone, Debug, Default)]
pub struct EndedRequests {
    entries: VecDeque<Ended>,
    /// How many entries were ever taken from the front: an entry's position minus this is its index in `entries`.
    taken: u64,
    /// No entry ended after this.
    newest: StoreTime,
    index: Option<Box<Index>>,
}

impl EndedRequests {
    /// Remembers one.
    pub fn push(&mut self, mut ended: Ended) {
        // Ordered by time, so that expired entries come first. Only entries that a full batch left over are out of
        // order, and they are remembered a little longer.
        ended.at = ended.at.max(self.newest);
        self.entries.push_back(ended);
        self.newest = ended.at;
        if self.index.is_some() {
            self.index_from(self.entries.len() - 1);
        } else if self.entries.len() == INDEX_FROM {
            self.index = Some(Box::default());
            self.index_from(0);
        }
    }

    /// What is remembered of this request at `now`: its end, or that it was refused.
    pub fn past(&self, request: RequestId, now: StoreTime) -> Option<&Ended> {
        self.find(Key::Request(request), now)
    }

    /// The end of this request, if it is remembered at `now`.
    pub fn request(&self, request: RequestId, now: StoreTime) -> Option<&Ended> {
        self.past(request, now).filter(|ended| !matches!(ended.end, RequestEnd::Refused(_)))
    }

    /// The end of the request that had this lease, if it is remembered at `now`.
    pub fn lease(&self, lease_id: LeaseId, now: StoreTime) -> Option<LeaseEnd> {
        match self.find(Key::Lease(lease_id), now)?.end {
            RequestEnd::Lease(lease) => Some(lease.end),
            _ => None,
        }
    }

    /// Repairs times after the clock stepped back: no entry is remembered for longer than its period from now.
    pub fn heal(&mut self, now: StoreTime) {
        if now < self.newest {
            self.entries.iter_mut().for_each(|ended| ended.at = ended.at.min(now));
            self.newest = now;
        }
    }

    /// Removes expired entries, at most `batch`.
    pub fn forget(&mut self, now: StoreTime, batch: usize) {
        for _ in 0..batch {
            match self.entries.front() {
                Some(oldest) if oldest.until() <= now => self.take_front(),
                _ => break,
            }
        }
        if self.entries.is_empty() {
            // Frees the memory, because most locks are idle most of the time.
            *self = Self { taken: self.taken, ..Self::default() };
        }
    }

    /// When the next entry may be forgotten.
    pub fn next_due(&self) -> Option<StoreTime> {
        self.entries.front().map(Ended::until)
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many were ever remembered.
    pub fn count(&self) -> u64 {
        self.taken + self.entries.len() as u64
    }

    /// Those that came after so many others, as far as they are remembered.
    pub fn after(&self, count: u64) -> impl Iterator<Item = &Ended> {
        let index = usize::try_from(count.saturating_sub(self.taken)).unwrap_or(usize::MAX);
        self.entries.range(index.min(self.entries.len())..)
    }

    /// Checks the invariants.
    pub fn check(&self) {
        assert!(self.entries.iter().map(|ended| ended.at).is_sorted(), "what ended first is forgotten first");
    }

    fn take_front(&mut self) {
        let Some(oldest) = self.entries.pop_front() else { return };
        if let Some(index) = &mut self.index {
            index.remove(&oldest, number(self.taken));
        }
        self.taken += 1;
    }

    fn find(&self, key: Key, now: StoreTime) -> Option<&Ended> {
        let found = match &self.index {
            Some(index) => index.find(key, |number| self.numbered(number)),
            None => self.entries.iter().rev().find(|ended| key.is_of(ended)),
        };
        found.filter(|ended| now < ended.until())
    }

    /// Indexes the entries from this index on.
    fn index_from(&mut self, first: usize) {
        let Some(mut index) = self.index.take() else { return };
        for (ended, position) in self.entries.range(first..).zip(self.taken + first as u64..) {
            index.add(ended, number(position), |number| self.numbered(number));
        }
        self.index = Some(index);
    }

    fn numbered(&self, it: u32) -> Option<&Ended> {
        usize::try_from(it.wrapping_sub(number(self.taken))).ok().and_then(|index| self.entries.get(index))
    }
}

/// The lower half of a position.
fn number(position: u64) -> u32 {
    u32::try_from(position & u64::from(u32::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn at(seconds: u64) -> StoreTime {
        StoreTime::from_micros(seconds * 1_000_000)
    }

    fn released(number: u64, second: u64) -> Ended {
        let number = u128::from(number);
        Ended {
            request: RequestId(Uuid::from_u128(number)),
            fingerprint: 7,
            end: RequestEnd::Lease(EndedLease {
                lease_id: LeaseId(Uuid::from_u128(number + 1_000_000)),
                token: None,
                end: LeaseEnd::Released,
                handed_on: LeaseEnd::Released,
            }),
            at: at(second),
        }
    }

    #[test]
    fn remembers_for_ten_seconds_with_and_without_the_index() {
        for count in [1, INDEX_FROM as u64 - 1, INDEX_FROM as u64, 500] {
            let mut memory = EndedRequests::default();
            for number in 0..count {
                memory.push(released(number, number));
            }
            for number in 0..count {
                let request = RequestId(Uuid::from_u128(number.into()));
                let lease = LeaseId(Uuid::from_u128(u128::from(number) + 1_000_000));
                let end = number + 10;
                let last = StoreTime::from_micros(end * 1_000_000 - 1);
                assert_eq!(memory.request(request, last), Some(&released(number, number)));
                assert_eq!(memory.lease(lease, last), Some(LeaseEnd::Released));
                assert_eq!(memory.request(request, at(end)), None);
                assert_eq!(memory.lease(lease, at(end)), None);
                assert_eq!(memory.lease(LeaseId(request.0), at(0)), None, "a request id is no lease id");
            }
        }
    }

    #[test]
    fn forgets_in_batches_and_gives_its_memory_back() {
        let mut memory = EndedRequests::default();
        (0..100).for_each(|number| memory.push(released(number, 0)));
        assert_eq!(memory.next_due(), Some(at(10)));
        memory.forget(at(9), 64);
        assert_eq!(memory.entries.len(), 100);
        memory.forget(at(10), 64);
        assert_eq!(memory.entries.len(), 36);
        assert_eq!(memory.index.as_ref().map(|index| index.len()), Some(72));
        memory.push(released(3, 10));
        assert!(memory.request(RequestId(Uuid::from_u128(3)), at(11)).is_some(), "an id used again is found again");
        memory.forget(at(20), 64);
        assert!(memory.is_empty() && memory.index.is_none() && memory.entries.capacity() == 0);
        memory.push(released(5, 20));
        assert!(memory.request(RequestId(Uuid::from_u128(5)), at(20)).is_some());
    }

    /// The index knows the lower half of a position only.
    #[test]
    fn is_the_same_after_billions_of_ends() {
        let mut memory = EndedRequests { taken: u64::from(u32::MAX) - 40, ..EndedRequests::default() };
        for number in 0..200 {
            memory.push(released(number, number / 10));
            memory.forget(at(number / 10), 64);
            let request = |number: u64| RequestId(Uuid::from_u128(number.into()));
            let now = at(number / 10);
            assert!(
                (number.saturating_sub(90)..=number).all(|it| memory.request(request(it), now).is_some()),
                "{number}"
            );
            assert!((0..number.saturating_sub(99)).all(|it| memory.request(request(it), now).is_none()), "{number}");
        }
        assert!(memory.taken > u64::from(u32::MAX) && memory.index.is_some());
    }

    #[test]
    fn a_clock_that_stepped_back_does_not_prolong_the_memory() {
        let mut memory = EndedRequests::default();
        (0..3).for_each(|number| memory.push(released(number, 1_000)));
        memory.heal(at(100));
        memory.forget(at(110), 64);
        assert!(memory.is_empty());
    }
}
