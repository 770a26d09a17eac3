//! The outcomes of commands. A refusal is an outcome, not an error.

mod views;

pub use views::{
    ClassicHold, DelayView, HeldPermits, HolderExtra, HolderView, LockView, SemaphoreView, SharedView, TokenStatus,
    WaiterView, WaitersView,
};

use super::{
    codec,
    ids::{GrantId, LeaseId},
    lease::LeaseEnd,
    mode::{ModeName, PermitLimit},
    name::Holder,
    token::FencingToken,
};
use minicbor::{Decode, Encode};
use std::{num::NonZeroU32, time::Duration};

/// A grant, as its holder sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Grant {
    /// Proof of ownership.
    #[n(0)]
    pub lease_id: LeaseId,
    /// Public name.
    #[n(1)]
    pub grant_id: GrantId,
    /// Fencing token.
    #[n(2)]
    pub token: FencingToken,
    /// How long the lease has left.
    #[cbor(n(3), with = "codec::span")]
    pub left: Duration,
    /// How the lock's previous lease ended, where that is remembered.
    #[n(4)]
    pub previous_end: Option<LeaseEnd>,
    /// Its slot, if it has one permit of a semaphore.
    #[n(5)]
    pub slot: Option<NonZeroU32>,
    /// The mode that it has now.
    #[cbor(n(6), with = "codec::mode_name", has_nil)]
    pub mode: ModeName,
}

/// Why a request did not get the lock.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Contention {
    /// The holder; `None` while the lock is offered to the next waiter, or stays unavailable after a lease.
    #[n(0)]
    pub current: Option<HolderView>,
    /// The classic client that holds it, in place of a lease.
    #[n(1)]
    pub classic: Option<ClassicHold>,
    /// The number of waiters.
    #[n(2)]
    pub waiters: usize,
    /// Why it, or a place of it, is unavailable although nobody holds that, and for how long.
    #[n(3)]
    pub delay: Option<DelayView>,
    /// The leases that hold it together.
    #[n(4)]
    pub shared: Option<Box<SharedView>>,
}

/// The outcome of Acquire, Claim and GiveUp.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum AcquireOutcome {
    /// The lock is the caller's.
    #[n(0)]
    Granted(#[n(0)] Grant),
    /// It is not free, and the caller does not wait. Boxed, because it is rare and large.
    #[n(1)]
    Contended(#[n(0)] Box<Contention>),
    /// The caller is queued.
    #[n(2)]
    Queued,
    /// The wait has ended and the request has left the queue.
    #[n(3)]
    TimedOut(#[n(0)] Box<Contention>),
    /// Another call of the same attempt still waits, so the request stays queued. This call is no longer bound to it.
    #[n(4)]
    Shared,
    /// A newer attempt of the request is bound, or this one was dropped. Nothing was changed.
    #[n(5)]
    Overtaken,
    /// The request has ended: it had its lease, or was abandoned. Nothing was changed.
    #[n(6)]
    Ended,
    /// The request, or this attempt of it, is not known: the store forgot it. Nothing was changed.
    #[n(7)]
    Unknown,
    /// The id is bound to other terms. Nothing was changed.
    #[n(8)]
    OtherTerms,
    /// `min_token` is above the highest value allowed now, which this is. Nothing was changed.
    #[n(9)]
    MinTokenTooHigh(#[n(0)] u64),
    /// The queue is full. Nothing was changed.
    #[n(10)]
    QueueFull,
    /// No token is left. The request neither holds the lock nor waits for it.
    #[n(11)]
    TokensExhausted,
    /// The lock is shared with classic clients, which would not see a delay, nor readers. Nothing was changed.
    #[n(12)]
    BesideClassic,
    /// The limit of the semaphore in force, which this is, has the version that the request names, and other permits;
    /// or is less than the permits that the request asks for. It is not queued.
    #[n(13)]
    LimitMismatch(#[n(0)] PermitLimit),
    /// The lock is in use as a semaphore, and the request shares it; or the reverse. Nothing was changed.
    #[n(14)]
    ModeMismatch,
}

/// The fate of a lease that a caller asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Fate {
    /// It ended in this way, recently enough to be remembered.
    #[n(0)]
    Ended(#[n(0)] LeaseEnd),
    /// Its end is not remembered, and another lease holds the lock.
    #[n(1)]
    Superseded,
    /// It is not known.
    #[n(2)]
    Unknown,
}

/// A lease that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Gone {
    /// How it ended.
    #[n(0)]
    pub fate: Fate,
    /// The token of the lease that holds the lock now.
    #[n(1)]
    pub successor: Option<FencingToken>,
}

/// The outcome of Release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum ReleaseOutcome {
    /// This command released it.
    #[n(0)]
    Released,
    /// It had ended before; `Ended(Released)` answers a repeat.
    #[n(1)]
    Gone(#[n(0)] Gone),
}

/// The outcome of Convert.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum ConvertOutcome {
    /// The lease has the mode that was asked for. It ends when it would have, and an exclusive one has a new token.
    #[n(0)]
    Converted(#[n(0)] Renewed),
    /// Others share the lock, or are offered it, or ghosts of such leases are there: nobody can have it alone. Nothing
    /// was changed.
    #[n(1)]
    Contended(#[n(0)] Box<Contention>),
    /// The lease has ended.
    #[n(2)]
    Lost(#[n(0)] Gone),
    /// The lease has another token, because it was converted since. Nothing was changed.
    #[n(3)]
    TokenOutdated,
    /// The lease is of a semaphore. Nothing was changed.
    #[n(4)]
    NotConvertible,
    /// No token is left. Nothing was changed.
    #[n(5)]
    TokensExhausted,
    /// The lock is shared with classic clients, which would not see readers. Nothing was changed.
    #[n(6)]
    BesideClassic,
}

/// The outcome of Describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum DescribeOutcome {
    /// Others see the description with this number.
    #[n(0)]
    Described(#[n(0)] u64),
    /// A later one, with this number, was there before. Nothing was changed.
    #[n(1)]
    Outdated(#[n(0)] u64),
    /// The lease has ended.
    #[n(2)]
    Lost(#[n(0)] Gone),
}

/// The outcome of Renew and Attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum RenewOutcome {
    /// The lease was extended.
    #[n(0)]
    Renewed(#[n(0)] Renewed),
    /// It has ended. Nothing was changed.
    #[n(1)]
    Lost(#[n(0)] Gone),
    /// A newer attachment keeps it alive. Nothing was changed.
    #[n(2)]
    AttachedElsewhere,
}

/// A lease that was extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Renewed {
    /// Its token, unchanged.
    #[n(0)]
    pub token: FencingToken,
    /// The TTL last asked for.
    #[cbor(n(1), with = "codec::span")]
    pub ttl: Duration,
    /// How long it has left.
    #[cbor(n(2), with = "codec::span")]
    pub left: Duration,
}

/// The outcome of ForceRelease.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum RevokeOutcome {
    /// The lease was taken from this holder, or the delay after its lease has ended.
    #[n(0)]
    Revoked(#[n(0)] Holder),
    /// Nobody holds the lock, and no delay keeps it. Nothing was changed.
    #[n(1)]
    NotHeld,
    /// It is held, or kept by a delay, under this other token. Nothing was changed.
    #[n(2)]
    TokenMismatch(#[n(0)] FencingToken),
}
