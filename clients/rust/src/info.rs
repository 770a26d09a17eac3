//! The public state of a lock.

use crate::v1;
use crate::values::{Holder, LeaseEnd, LockDelay};

/// The state of a lock at one moment, as everybody may see it. It may be out of date when it arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The lock's name.
    pub name: String,
    /// The holders; empty if nobody holds the lock. One, or the oldest of those that share it: at most 8.
    pub holders: Vec<Holder>,
    /// How many holders the lock has in all.
    pub holder_count: u32,
    /// The number of requests that wait.
    pub waiters: u32,
    /// How the last lease before the current one ended; `None` if no end is known.
    pub previous_end: Option<LeaseEnd>,
    /// The highest token that the lock has granted; `None` if none is remembered.
    pub newest_token: Option<u64>,
    /// The permits, if the lock is held as a semaphore.
    pub semaphore: Option<SemaphoreInfo>,
    /// Why nobody gets the lock, if nobody holds it.
    pub delay: Option<LockDelay>,
}

impl From<v1::LockInfo> for LockInfo {
    fn from(lock: v1::LockInfo) -> Self {
        Self {
            previous_end: LeaseEnd::of(lock.previous_end()),
            name: lock.lock_name,
            holders: lock.holders.into_iter().map(Into::into).collect(),
            holder_count: lock.holder_count,
            waiters: lock.waiters,
            newest_token: (lock.newest_token != 0).then_some(lock.newest_token),
            semaphore: lock.semaphore.map(Into::into),
            delay: lock.delay.map(Into::into),
        }
    }
}

/// The permits of a lock that is held as a [`semaphore`](crate::Acquire::semaphore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SemaphoreInfo {
    /// The permits that its holders use. More than the limit only after that was lowered.
    pub permits_used: u64,
    /// The limit in force.
    pub permit_limit: u32,
    /// Its version.
    pub permit_limit_version: u64,
}

impl From<v1::Semaphore> for SemaphoreInfo {
    fn from(semaphore: v1::Semaphore) -> Self {
        let v1::Semaphore { permits_used, permit_limit, permit_limit_version } = semaphore;
        Self { permits_used, permit_limit, permit_limit_version }
    }
}

impl From<SemaphoreInfo> for v1::Semaphore {
    fn from(semaphore: SemaphoreInfo) -> Self {
        let SemaphoreInfo { permits_used, permit_limit, permit_limit_version } = semaphore;
        Self { permits_used, permit_limit, permit_limit_version }
    }
}
