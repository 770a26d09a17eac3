//! The index of ended requests by id.

use super::Ended;
use crate::domain::ids::{LeaseId, RequestId};
use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};
use std::hash::BuildHasher;

/// Finds entries by their numbers. A lock that is taken a thousand times a second has ten thousand of them, which are
/// looked at in any order: so the ids are in the entries alone, and what is kept here is as small as it can be.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// Seeded: clients choose the ids of their requests.
    hasher: DefaultHashBuilder,
    /// By request, and by lease.
    numbers: [HashTable<u32>; 2],
}

/// What an entry is found by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Request(RequestId),
    Lease(LeaseId),
}

impl Key {
    pub(super) fn is_of(self, ended: &Ended) -> bool {
        self.alike(ended) == Some(self)
    }

    /// The key of this kind that another entry has.
    fn alike(self, ended: &Ended) -> Option<Self> {
        match self {
            Self::Request(_) => Some(Self::Request(ended.request)),
            Self::Lease(_) => ended.lease().map(Self::Lease),
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Request(_) => 0,
            Self::Lease(_) => 1,
        }
    }

    fn hash(self, hasher: &DefaultHashBuilder) -> u64 {
        let (Self::Request(RequestId(id)) | Self::Lease(LeaseId(id))) = self;
        hasher.hash_one(id.as_u128())
    }
}

fn keys(ended: &Ended) -> impl Iterator<Item = Key> + use<> {
    [Some(Key::Request(ended.request)), ended.lease().map(Key::Lease)].into_iter().flatten()
}

impl Index {
    /// The entry with this key that was added last.
    pub(super) fn find<'a>(&self, key: Key, entry: impl Fn(u32) -> Option<&'a Ended>) -> Option<&'a Ended> {
        let is = |number: &u32| entry(*number).is_some_and(|ended| key.is_of(ended));
        self.numbers[key.index()].find(key.hash(&self.hasher), is).and_then(|number| entry(*number))
    }

    pub(super) fn add<'a>(&mut self, ended: &Ended, number: u32, entry: impl Fn(u32) -> Option<&'a Ended>) {
        let Self { hasher, numbers } = self;
        for key in keys(ended) {
            let is = |number: &u32| entry(*number).is_some_and(|other| key.is_of(other));
            let rehash =
                |number: &u32| entry(*number).and_then(|other| key.alike(other)).map_or(0, |key| key.hash(hasher));
            match numbers[key.index()].entry(key.hash(hasher), is, rehash) {
                Entry::Occupied(mut found) => *found.get_mut() = number,
                Entry::Vacant(free) => _ = free.insert(number),
            }
        }
    }

    /// The same id may have been used again after its memory ran out: the later entry stays.
    pub(super) fn remove(&mut self, ended: &Ended, number: u32) {
        for key in keys(ended) {
            let hash = key.hash(&self.hasher);
            if let Ok(found) = self.numbers[key.index()].find_entry(hash, |other| *other == number) {
                found.remove();
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.numbers.iter().map(HashTable::len).sum()
    }
}
