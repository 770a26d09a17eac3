//! What a command comes to. A refusal is not an error: it has its own variant.

use super::{
    ids::{AttachmentId, GrantId, LeaseId, ReplicaId, RequestId},
    lease::{Lease, LeaseEnd},
    name::{Holder, Metadata},
    time::StoreTime,
    token::FencingToken,
};
use smallvec::SmallVec;
use std::time::Duration;

/// What the holder is told of its grant.
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

/// What others are told of a lease.
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

/// A lock that is taken by a client which goes to the store itself, past this service, by the classic recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicHold {
    /// How long its key has left; nothing if it stays until somebody deletes it.
    pub left: Option<Duration>,
}

/// Why a request did not get the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contention {
    /// Who holds it; nobody while it is on its way to the next waiter.
    pub current: Option<HolderView>,
    /// The classic client that holds it, in place of a lease.
    pub classic: Option<ClassicHold>,
    /// How many wait.
    pub waiters: usize,
}

/// What Acquire, Claim and GiveUp come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// The lock is the caller's.
    Granted(Grant),
    /// It is not free, and the caller does not wait. (Boxed: the rare and large one.)
    Contended(Box<Contention>),
    /// The caller stands in line.
    Queued,
    /// The wait has ended and the request is out of the line.
    TimedOut(Box<Contention>),
    /// A call with the same attempt number still waits, so the request stays in line; this call is no longer bound to
    /// it.
    Shared,
    /// A newer attempt of the request is bound, or this one was dropped. Nothing was changed.
    Overtaken,
    /// The request has ended: it had its lease, or was abandoned. Nothing was changed.
    Ended,
    /// Nothing is known of the request or of this attempt of it: the store forgot it. Nothing was changed.
    Unknown,
    /// The id is bound to other terms. Nothing was changed.
    OtherTerms,
    /// `min_token` is higher than this, the highest allowed now. Nothing was changed.
    MinTokenTooHigh(u64),
    /// As many wait for the lock as may. Nothing was changed.
    QueueFull,
    /// The command came too late to act: its caller has given up. Nothing was changed. Says the store's time.
    TooLate(StoreTime),
    /// The command was meant for a life of the store that is over: its server must connect anew. Nothing was changed.
    LeftBehind,
    /// No token is left. The request neither has the lock nor stands in line.
    TokensExhausted,
}

/// What Poll comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// The request and attempt that the lock is on offer to, if the polling replica carries it.
    pub offered: Option<(RequestId, u32)>,
    /// How many waiters of the polling replica the lock knows.
    pub waiters: usize,
    /// The place of whoever stands first in line.
    pub first_place: Option<u64>,
}

/// How a lease that a caller asked about has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It ended within the memory, like this.
    Ended(LeaseEnd),
    /// It is not remembered, and another lease holds the lock.
    Superseded,
    /// Nothing is known of it.
    Unknown,
}

/// A lease that is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// How it ended.
    pub fate: Fate,
    /// The token of the lease that holds the lock now.
    pub successor: Option<FencingToken>,
}

/// What Release comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// Given back by this command.
    Released,
    /// It had ended before; `Ended(Released)` answers a repeat.
    Gone(Gone),
}

/// What Renew and Attach come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewOutcome {
    /// The lease goes on.
    Renewed(Renewed),
    /// It has ended. Nothing was changed.
    Lost(Gone),
    /// A newer attachment keeps it alive. Nothing was changed.
    AttachedElsewhere,
}

/// A lease that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Its token, unchanged.
    pub token: FencingToken,
    /// The TTL last asked for.
    pub ttl: Duration,
    /// How long it has left.
    pub left: Duration,
}

/// What ForceRelease comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevokeOutcome {
    /// The lease was taken from this holder.
    Revoked(Holder),
    /// Nobody holds the lock. Nothing was changed.
    NotHeld,
    /// It is held under this other token. Nothing was changed.
    TokenMismatch(FencingToken),
}

/// What CheckToken comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenStatus {
    /// The lease of this token holds the lock.
    Current,
    /// It is the newest, and its lease has ended.
    Ended,
    /// A newer one has been granted.
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
    /// How many wait.
    pub waiters: usize,
    /// How the lease before the current one ended.
    pub previous_end: Option<LeaseEnd>,
    /// The highest token granted, where that is remembered.
    pub newest_token: Option<FencingToken>,
}

/// What a command has set off beyond its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The calls of this attempt should ask again (Claim): they were offered the lock, or are no longer bound.
    LookAgain {
        /// The server replica that carries them.
        replica: ReplicaId,
        /// Their request.
        request: RequestId,
        /// Their attempt.
        attempt: u32,
    },
    /// The lock was granted: its lease says to whom.
    Granted,
    /// A lease has ended.
    Ended {
        /// As it last was.
        lease: Lease,
        /// How it ended.
        end: LeaseEnd,
    },
    /// A stream's attachment was replaced by a newer one.
    Detached {
        /// The server replica of that stream.
        replica: ReplicaId,
        /// The lease.
        lease_id: LeaseId,
        /// The attachment that is void now.
        attachment: AttachmentId,
    },
    /// The server replica that sent the command had been silent for so long, or is so new here, that waiters of it may
    /// have been deleted: those that it knows of are to be sent away.
    ReplicaReturned,
}

/// The effects of one command, in order. Few commands have more than two.
pub type Effects = SmallVec<[Effect; 2]>;
