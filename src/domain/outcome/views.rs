//! What others see of a lock: its holders, its waiters, and why nobody has it.

use crate::domain::{
    codec,
    ids::{GrantId, RequestId},
    lease::LeaseEnd,
    mode::{ModeName, PermitLimit},
    name::{Holder, Identity, Metadata, Owner},
    token::FencingToken,
};
use minicbor::{Decode, Encode};
use std::{num::NonZeroU32, time::Duration};

/// A lease, as others see it. It does not have the lease id, which is a credential.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct HolderView {
    /// The holder's label.
    #[n(0)]
    pub holder: Holder,
    /// What it says of itself.
    #[n(1)]
    pub metadata: Metadata,
    /// The grant's public name.
    #[n(2)]
    pub grant_id: GrantId,
    /// Its fencing token.
    #[n(3)]
    pub token: FencingToken,
    /// The TTL last asked for.
    #[cbor(n(4), with = "codec::span")]
    pub ttl: Duration,
    /// How long the lease has left.
    #[cbor(n(5), with = "codec::span")]
    pub left: Duration,
    /// How long ago it was granted.
    #[cbor(n(6), with = "codec::span")]
    pub held: Duration,
    /// Its permits, if it has any of a semaphore.
    #[n(7)]
    pub permits: Option<HeldPermits>,
    /// What is said of few leases.
    #[n(8)]
    pub extra: Option<Box<HolderExtra>>,
}

/// What is said of few leases, as others see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct HolderExtra {
    /// What acquired it, among other locks.
    #[n(0)]
    pub owner: Owner,
    /// Who its holder is, where that was verified.
    #[n(1)]
    pub identity: Option<Identity>,
    /// The number of its last description; 0: it was never described.
    #[n(2)]
    pub description: u64,
}

/// A request in the queue, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct WaiterView {
    /// Its place, which is below that of those that came later.
    #[n(0)]
    pub position: u64,
    /// A credential: it is not shown.
    #[n(1)]
    pub request: RequestId,
    /// Its label.
    #[n(2)]
    pub holder: Holder,
    /// What it belongs to, with requests for other locks.
    #[n(3)]
    pub owner: Owner,
    /// Who sent it, where that was verified.
    #[n(4)]
    pub identity: Option<Identity>,
    /// The mode that it waits for.
    #[n(5)]
    pub mode: ModeName,
    /// The permits that it waits for; 0 unless it waits for a semaphore.
    #[n(6)]
    pub permits: u32,
    /// How long it has been in the queue.
    #[cbor(n(7), with = "codec::span")]
    pub waited: Duration,
    /// Whether the queue passes over it now.
    #[n(8)]
    pub is_skipped: bool,
}

/// The outcome of ListWaiters.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct WaitersView {
    /// The lock.
    #[n(0)]
    pub lock: LockView,
    /// A part of its queue, in order.
    #[n(1)]
    pub waiters: Vec<WaiterView>,
    /// Whether more are behind them.
    #[n(2)]
    pub has_more: bool,
}

/// The permits of a lease, as others see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct HeldPermits {
    /// How many.
    #[n(0)]
    pub count: u32,
    /// Its slot; `None` if it has more than one permit.
    #[n(1)]
    pub slot: Option<NonZeroU32>,
}

/// A semaphore that is held, as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SemaphoreView {
    /// The permits in use, also by ghosts. More than the limit only after it was lowered.
    #[n(0)]
    pub used: u64,
    /// The limit in force.
    #[n(1)]
    pub limit: PermitLimit,
}

/// A lock, or a place of it, that nobody holds and that is granted to nobody yet, because of the lease before, as
/// others see it. Of several ghosts, the one that goes first is shown of a semaphore, whose permits are free one by
/// one; else the one that goes last, because a writer waits for all.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct DelayView {
    /// The label of who held that lease.
    #[n(0)]
    pub holder: Holder,
    /// Its fencing token.
    #[n(1)]
    pub token: FencingToken,
    /// How long it stays unavailable.
    #[cbor(n(2), with = "codec::span")]
    pub left: Duration,
}

/// A lock held by a client that takes it in Redis directly, by the classic recipe (`SET NX PX`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ClassicHold {
    /// How long its key has left; `None` if the key has no TTL.
    #[cbor(n(0), with = "codec::optional_span", has_nil)]
    pub left: Option<Duration>,
}

/// Leases that hold a lock together, shared ones or those of a semaphore, as others see them.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SharedView {
    /// The oldest: at most [`HOLDERS_SHOWN`](crate::domain::limits::HOLDERS_SHOWN). None if ghosts alone use permits.
    #[n(0)]
    pub holders: Vec<HolderView>,
    /// How many there are in all.
    #[n(1)]
    pub count: usize,
    /// Whether one of them has the token that was asked about.
    #[n(2)]
    pub has_token: bool,
    /// What they and ghosts use of the semaphore, if it is one.
    #[n(3)]
    pub semaphore: Option<SemaphoreView>,
}

/// What a token is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenStatus {
    /// The lease with this token holds the lock.
    Current,
    /// It is the newest token, and its lease has ended.
    Ended,
    /// A newer token has been granted.
    Stale,
    /// No such token is remembered.
    Unknown,
}

/// One lock, as anybody may see it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct LockView {
    /// Who holds it alone.
    #[n(0)]
    pub current: Option<HolderView>,
    /// The classic client that holds it, in place of a lease.
    #[n(1)]
    pub classic: Option<ClassicHold>,
    /// The number of waiters.
    #[n(2)]
    pub waiters: usize,
    /// How the lease before the current one ended.
    #[n(3)]
    pub previous_end: Option<LeaseEnd>,
    /// The highest token granted, where that is remembered.
    #[n(4)]
    pub newest_token: Option<FencingToken>,
    /// Why it, or a place of it, is unavailable although nobody holds that, and for how long.
    #[n(5)]
    pub delay: Option<DelayView>,
    /// The leases that hold it together.
    #[n(6)]
    pub shared: Option<Box<SharedView>>,
}

impl LockView {
    /// The status of a token, with which the lock was viewed.
    pub fn token_status(&self, token: FencingToken) -> TokenStatus {
        match self.newest_token {
            // Readers hold the lock together: each of their tokens is current.
            _ if self.shared.as_ref().is_some_and(|shared| shared.has_token) => TokenStatus::Current,
            Some(newest) if token < newest => TokenStatus::Stale,
            Some(newest) if token == newest && self.current.is_some() => TokenStatus::Current,
            Some(newest) if token == newest => TokenStatus::Ended,
            _ => TokenStatus::Unknown,
        }
    }
}
