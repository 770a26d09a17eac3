//! The index of ended requests by id.

use super::Ended;
use crate::domain::ids::{LeaseId, RequestId};
use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};
use std::hash::BuildHasher;

/// Finds entries by their numbers. A lock that is taken a thousand times a second has ten thousand of them, which are
/// looked at in any order: so the ids are in the entries alone, and what is kept here is small.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// Seeded: clients choose the ids of their requests.
    hasher: DefaultHashBuilder,
    /// By request, and by lease.
    numbers: [HashTable<Numbered>; 2],
}

/// The number of an entry, and half of its key's hash. So a table that grows reads no entry: most entries are in no
/// cache any more.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    number: u32,
    hash: u32,
}

/// The hash for a table, which uses the highest bits and the lowest.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << u32::BITS | u64::from(hash)
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

    fn hash(self, hasher: &DefaultHashBuilder) -> u32 {
        let (Self::Request(RequestId(id)) | Self::Lease(LeaseId(id))) = self;
        u32::try_from(hasher.hash_one(id.as_u128()) >> u32::BITS).unwrap_or_default()
    }
}

fn keys(ended: &Ended) -> impl Iterator<Item = Key> + use<> {
    [Some(Key::Request(ended.request)), ended.lease().map(Key::Lease)].into_iter().flatten()
}

impl Index {
    /// The entry with this key that was added last.
    pub(super) fn find<'a>(&self, key: Key, entry: impl Fn(u32) -> Option<&'a Ended>) -> Option<&'a Ended> {
        let hash = key.hash(&self.hasher);
        let is = |it: &Numbered| it.hash == hash && entry(it.number).is_some_and(|ended| key.is_of(ended));
        self.numbers[key.index()].find(spread(hash), is).and_then(|it| entry(it.number))
    }

    pub(super) fn add<'a>(&mut self, ended: &Ended, number: u32, entry: impl Fn(u32) -> Option<&'a Ended>) {
        let Self { hasher, numbers } = self;
        for key in keys(ended) {
            let hash = key.hash(hasher);
            let is = |it: &Numbered| it.hash == hash && entry(it.number).is_some_and(|other| key.is_of(other));
            match numbers[key.index()].entry(spread(hash), is, |it| spread(it.hash)) {
                Entry::Occupied(mut found) => found.get_mut().number = number,
                Entry::Vacant(free) => _ = free.insert(Numbered { number, hash }),
            }
        }
    }

    /// The same id may have been used again after its memory ran out: the later entry stays.
    pub(super) fn remove(&mut self, ended: &Ended, number: u32) {
        for key in keys(ended) {
            let hash = key.hash(&self.hasher);
            if let Ok(found) = self.numbers[key.index()].find_entry(spread(hash), |other| other.number == number) {
                found.remove();
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.numbers.iter().map(HashTable::len).sum()
    }
}
