//! The route to a lock: its partition, and its hash within the partition.

use crate::domain::name::LockName;
use xxhash_rust::xxh3::xxh3_128;

/// Where a lock is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The number of its partition. The same in every version.
    pub(crate) partition: usize,
    /// The hash of its name within the partition. It shares no bits with the number.
    pub(crate) hash: u64,
}

impl Route {
    /// The route to a lock among so many partitions.
    pub(crate) fn of(name: &LockName, partitions: u16) -> Self {
        let hash = xxh3_128(name.as_str().as_bytes());
        // The high half, as a fraction of 2^64, tells the partition.
        let partition = ((hash >> 64) * u128::from(partitions)) >> 64;
        Self { partition: usize::try_from(partition).unwrap_or(0), hash: low_half(hash) }
    }

    /// The hash of a name within its partition.
    pub(crate) fn hash_of(name: &LockName) -> u64 {
        low_half(xxh3_128(name.as_str().as_bytes()))
    }
}

fn low_half(hash: u128) -> u64 {
    u64::try_from(hash & u128::from(u64::MAX)).unwrap_or_default()
}
