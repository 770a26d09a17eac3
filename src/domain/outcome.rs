//! The outcomes of commands. A refusal is an outcome, not an error.

use super::{
    ids::{GrantId, LeaseId},
    lease::LeaseEnd,
    name::{Holder, Metadata},
    token::FencingToken,
};
use std::time::Duration;

/// A grant, as its holder sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Proof of ownership.
    pub lease_id: LeaseId,
    /// Public name.
    pub grant_id: GrantId,
    /// Fencing token.
    pub token: FencingToken,
    /// How long the lease has left.
    pub left: Duration,
    /// How the lock's previous lease ended, where that is remembered.
    pub previous_end: Option<LeaseEnd>,
}

/// A lease, as others see it. It does not have the lease id, which is a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderView {
    /// The holder's label.
    pub holder: Holder,
    /// What it says of itself.
    pub metadata: Metadata,
    /// The grant's public name.
    pub grant_id: GrantId,
    /// Its fencing token.
    pub token: FencingToken,
    /// The TTL last asked for.
    pub ttl: Duration,
    /// How long the lease has left.
    pub left: Duration,
    /// How long ago it was granted.
    pub held: Duration,
}

/// A lock held by a client that takes it in Redis directly, by the classic recipe (`SET NX PX`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicHold {
    /// How long its key has left; `None` if the key has no TTL.
    pub left: Option<Duration>,
}

/// Why a request did not get the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contention {
    /// The holder; `None` while the lock is offered to the next waiter.
    pub current: Option<HolderView>,
    /// The classic client that holds it, in place of a lease.
    pub classic: Option<ClassicHold>,
    /// The number of waiters.
    pub waiters: usize,
}

/// The outcome of Acquire, Claim and GiveUp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// The lock is the caller's.
    Granted(Grant),
    /// It is not free, and the caller does not wait. Boxed, because it is rare and large.
    Contended(Box<Contention>),
    /// The caller is queued.
    Queued,
    /// The wait has ended and the request has left the queue.
    TimedOut(Box<Contention>),
    /// Another call of the same attempt still waits, so the request stays queued. This call is no longer bound to it.
    Shared,
    /// A newer attempt of the request is bound, or this one was dropped. Nothing was changed.
    Overtaken,
    /// The request has ended: it had its lease, or was abandoned. Nothing was changed.
    Ended,
    /// The request, or this attempt of it, is not known: the store forgot it. Nothing was changed.
    Unknown,
    /// The id is bound to other terms. Nothing was changed.
    OtherTerms,
    /// `min_token` is above the highest value allowed now, which this is. Nothing was changed.
    MinTokenTooHigh(u64),
    /// The queue is full. Nothing was changed.
    QueueFull,
    /// No token is left. The request neither holds the lock nor waits for it.
    TokensExhausted,
}

/// The fate of a lease that a caller asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It ended in this way, recently enough to be remembered.
    Ended(LeaseEnd),
    /// Its end is not remembered, and another lease holds the lock.
    Superseded,
    /// It is not known.
    Unknown,
}

/// A lease that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// How it ended.
    pub fate: Fate,
    /// The token of the lease that holds the lock now.
    pub successor: Option<FencingToken>,
}

/// The outcome of Release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// This command released it.
    Released,
    /// It had ended before; `Ended(Released)` answers a repeat.
    Gone(Gone),
}

/// The outcome of Renew and Attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewOutcome {
    /// The lease was extended.
    Renewed(Renewed),
    /// It has ended. Nothing was changed.
    Lost(Gone),
    /// A newer attachment keeps it alive. Nothing was changed.
    AttachedElsewhere,
}

/// A lease that was extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Its token, unchanged.
    pub token: FencingToken,
    /// The TTL last asked for.
    pub ttl: Duration,
    /// How long it has left.
    pub left: Duration,
}

/// The outcome of ForceRelease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevokeOutcome {
    /// The lease was taken from this holder.
    Revoked(Holder),
    /// Nobody holds the lock. Nothing was changed.
    NotHeld,
    /// It is held under this other token. Nothing was changed.
    TokenMismatch(FencingToken),
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
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LockView {
    /// Who holds it.
    pub current: Option<HolderView>,
    /// The classic client that holds it, in place of a lease.
    pub classic: Option<ClassicHold>,
    /// The number of waiters.
    pub waiters: usize,
    /// How the lease before the current one ended.
    pub previous_end: Option<LeaseEnd>,
    /// The highest token granted, where that is remembered.
    pub newest_token: Option<FencingToken>,
}

impl LockView {
    /// The status of a token.
    pub fn token_status(&self, token: FencingToken) -> TokenStatus {
        match self.newest_token {
            Some(newest) if token < newest => TokenStatus::Stale,
            Some(newest) if token == newest && self.current.is_some() => TokenStatus::Current,
            Some(newest) if token == newest => TokenStatus::Ended,
            _ => TokenStatus::Unknown,
        }
    }
}
