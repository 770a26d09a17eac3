//! What servers say about locks, in types that do not depend on the library of the transport. [`raw`](crate::raw) has
//! the generated ones.

use crate::mode::Mode;
use crate::proto::{duration, wire};
use crate::v1;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A holder of a lock, as others see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The label of the holder; may be empty.
    pub label: String,
    /// The public id of the grant. Empty for a client that uses Redis directly.
    pub grant_id: String,
    /// The fencing token of the grant. `None` for a client that uses Redis directly.
    pub token: Option<u64>,
    /// The TTL of the lease, which each renewal restores. `None` for a client that uses Redis directly.
    pub ttl: Option<Duration>,
    /// The time until the lease ends unless it is renewed. `None` if it does not end by itself.
    pub expires_in: Option<Duration>,
    /// The time since the grant. `None` for a client that uses Redis directly.
    pub held_since: Option<Duration>,
    /// The metadata of the holder's request.
    pub metadata: BTreeMap<String, String>,
    /// Whether it shares the lock with others ([`shared`](crate::Acquire::shared)).
    pub shared: bool,
    /// Its permits of a [`semaphore`](crate::Acquire::semaphore); 0 if the lock is held as none.
    pub permits: u32,
    /// Its slot, if it has one permit of a semaphore.
    pub slot: Option<u32>,
    /// What acquired it, among other locks, as the request said; may be empty.
    pub owner: String,
    /// Who it is, as the server verified it; `None` if it was not verified.
    pub identity: Option<String>,
    /// The number of its last description; 0 if it was never described.
    pub description: u64,
}

impl From<v1::LockHolder> for Holder {
    fn from(holder: v1::LockHolder) -> Self {
        let span = |wire: Option<prost_types::Duration>| wire.map(|wire| duration(Some(wire)));
        let shared = holder.mode() == v1::LockMode::Shared;
        Self {
            shared,
            label: holder.holder,
            grant_id: holder.grant_id,
            token: (holder.fencing_token != 0).then_some(holder.fencing_token),
            ttl: span(holder.ttl),
            expires_in: span(holder.expires_in),
            held_since: span(holder.held_since),
            metadata: holder.metadata.into_iter().collect(),
            permits: holder.permits,
            slot: (holder.slot != 0).then_some(holder.slot),
            owner: holder.owner,
            identity: Some(holder.identity).filter(|identity| !identity.is_empty()),
            description: holder.description,
        }
    }
}

impl From<Holder> for v1::LockHolder {
    fn from(holder: Holder) -> Self {
        let mode = match (holder.shared, holder.permits) {
            (true, _) => v1::LockMode::Shared,
            (false, 0) => v1::LockMode::Exclusive,
            (false, _) => v1::LockMode::Semaphore,
        };
        Self {
            mode: mode.into(),
            holder: holder.label,
            grant_id: holder.grant_id,
            fencing_token: holder.token.unwrap_or_default(),
            ttl: holder.ttl.and_then(wire),
            expires_in: holder.expires_in.and_then(wire),
            held_since: holder.held_since.and_then(wire),
            metadata: holder.metadata.into_iter().collect(),
            permits: holder.permits,
            slot: holder.slot.unwrap_or_default(),
            owner: holder.owner,
            identity: holder.identity.unwrap_or_default(),
            description: holder.description,
        }
    }
}

/// A lock, or a place of it beside other holders, that nobody holds and nobody gets yet: its last lease had a
/// [`min_hold`](crate::Acquire::min_hold) or a [`lock_delay`](crate::Acquire::lock_delay).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockDelay {
    /// How long it stays unavailable.
    pub remaining: Duration,
    /// The label of the holder of that lease; may be empty.
    pub holder: String,
    /// The fencing token of that lease. An operator's force release with it makes it available.
    pub token: u64,
}

impl fmt::Display for LockDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole_millis = Duration::from_millis(u64::try_from(self.remaining.as_millis()).unwrap_or(u64::MAX));
        let after = if self.holder.is_empty() { "its last lease" } else { &self.holder };
        write!(f, "is unavailable for another {whole_millis:?} (delay after {after})")
    }
}

impl From<v1::LockDelay> for LockDelay {
    fn from(delay: v1::LockDelay) -> Self {
        Self { remaining: duration(delay.remaining), holder: delay.holder, token: delay.fencing_token }
    }
}

impl From<LockDelay> for v1::LockDelay {
    fn from(delay: LockDelay) -> Self {
        Self { remaining: wire(delay.remaining), holder: delay.holder, fencing_token: delay.token }
    }
}

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseEnd {
    /// Its holder released it.
    Released,
    /// Its TTL passed without a renewal. The work that it protected may be unfinished.
    Expired,
    /// An operator or the server revoked it.
    Revoked,
    /// It ended longer ago than the server remembers, and another lease of the lock has been granted since.
    Superseded,
    /// The server does not know the lease: it ended longer ago than the server remembers.
    Unknown,
}

impl LeaseEnd {
    /// `None` if no end is known.
    pub(crate) fn of(end: v1::LeaseEnd) -> Option<Self> {
        match end {
            v1::LeaseEnd::Unspecified => None,
            v1::LeaseEnd::Released => Some(Self::Released),
            v1::LeaseEnd::Expired => Some(Self::Expired),
            v1::LeaseEnd::Revoked => Some(Self::Revoked),
            v1::LeaseEnd::Superseded => Some(Self::Superseded),
            v1::LeaseEnd::Unknown => Some(Self::Unknown),
        }
    }
}

impl From<LeaseEnd> for v1::LeaseEnd {
    fn from(end: LeaseEnd) -> Self {
        match end {
            LeaseEnd::Released => Self::Released,
            LeaseEnd::Expired => Self::Expired,
            LeaseEnd::Revoked => Self::Revoked,
            LeaseEnd::Superseded => Self::Superseded,
            LeaseEnd::Unknown => Self::Unknown,
        }
    }
}

/// A lease that is handed over: by [`Lock::into_lease`](crate::Lock::into_lease), or to
/// [`Client::keep`](crate::Client::keep).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Lease {
    /// The lock's name.
    pub lock_name: String,
    /// Proves that its owner holds the lease. A secret: whoever knows it can renew and release the lease.
    pub lease_id: String,
    /// The public id of the grant.
    pub grant_id: String,
    /// The fencing token of the grant.
    pub token: u64,
    /// The time left.
    pub ttl: Duration,
    /// How many permits of a [`semaphore`](crate::Acquire::semaphore) it has; 0 if the lock is held as none. It is not
    /// on the wire: of a lease from there, set it if it has several.
    pub permits: u32,
    /// The slot, if it has one permit of a [`semaphore`](crate::Acquire::semaphore).
    pub slot: Option<u32>,
    /// The mode that it has now. `None` if a server of an older version did not tell it.
    pub mode: Option<Mode>,
}

impl fmt::Debug for Lease {
    /// Omits the lease id, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Lease");
        debug.field("lock_name", &self.lock_name).field("grant_id", &self.grant_id).field("token", &self.token);
        debug.field("ttl", &self.ttl).field("permits", &self.permits).field("slot", &self.slot);
        debug.field("mode", &self.mode);
        debug.finish_non_exhaustive()
    }
}

impl From<v1::Lease> for Lease {
    fn from(lease: v1::Lease) -> Self {
        let mode = Mode::of(lease.mode());
        let v1::Lease { lock_name, lease_id, grant_id, fencing_token: token, ttl, slot, mode: _ } = lease;
        let (permits, slot) = (u32::from(slot != 0), (slot != 0).then_some(slot));
        Self { lock_name, lease_id, grant_id, token, ttl: duration(ttl), permits, slot, mode }
    }
}

impl From<Lease> for v1::Lease {
    fn from(lease: Lease) -> Self {
        let Lease { lock_name, lease_id, grant_id, token: fencing_token, ttl, permits: _, slot, mode } = lease;
        let (slot, mode) = (slot.unwrap_or_default(), mode.map_or(v1::LockMode::Unspecified, Into::into));
        Self { lock_name, lease_id, grant_id, fencing_token, ttl: wire(ttl), slot, mode: mode.into() }
    }
}
