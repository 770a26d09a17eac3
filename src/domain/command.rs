//! Commands on one lock, as values, with their outcomes and effects.
//!
//! Everything that acts on a lock speaks these types: the service, the stores, the rules
//! ([`Turn::run`](super::rules::Turn::run)) and the tests.

use super::{
    codec,
    ids::{AttachmentId, Call, GrantId, LeaseId, ReplicaId, RequestId},
    lease::{Lease, LeaseEnd, Terms},
    mode::{ConvertTo, ModeName},
    name::{Holder, Metadata, Reason},
    outcome::{
        AcquireOutcome, ConvertOutcome, DescribeOutcome, LockView, ReleaseOutcome, RenewOutcome, RevokeOutcome,
        WaitersView,
    },
    time::StoreTime,
    token::{FencingToken, min_token_max},
};
use minicbor::{Decode, Encode};
use smallvec::SmallVec;
use std::time::Duration;

/// A command on one lock. Each may be repeated: a repeat finds what the first one did.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Command {
    /// Asks for the lock. Outcome: [`AcquireOutcome`].
    #[n(0)]
    Acquire(#[n(0)] Acquire),
    /// Claims the offer to a queued request, or asks for the request's outcome. Outcome: [`AcquireOutcome`].
    #[n(1)]
    Claim(#[n(0)] Call, #[n(1)] Candidate),
    /// Ends the wait of a call whose time is over. Outcome: [`AcquireOutcome`].
    #[n(2)]
    GiveUp(#[n(0)] Call),
    /// Cleans up after a call that was dropped. Outcome: [`Outcome::Done`].
    #[n(3)]
    DropCall(#[n(0)] Call),
    /// Declines an offer to a call that cannot take it now: the waiter behind it comes first. The request's queue
    /// position is skipped, and kept as long as that of a dropped call; a claim brings it back. Changes nothing unless
    /// the lock is offered to the request. Outcome: [`Outcome::Done`].
    #[n(4)]
    Decline {
        /// The request that the lock is offered to.
        #[n(0)]
        request: RequestId,
        /// The attempt whose calls cannot take it.
        #[n(1)]
        attempt: u32,
    },
    /// Releases a lease. Outcome: [`ReleaseOutcome`].
    #[n(5)]
    Release(#[n(0)] LeaseId),
    /// Renews a lease. Outcome: [`RenewOutcome`].
    #[n(6)]
    Renew {
        /// The lease.
        #[n(0)]
        lease_id: LeaseId,
        /// The new TTL; `None` keeps the lease's own.
        #[cbor(n(1), with = "codec::optional_span", has_nil)]
        ttl: Option<Duration>,
    },
    /// Renews a lease if this attachment still keeps it. Outcome: [`RenewOutcome`].
    #[n(7)]
    RenewKept(#[n(0)] LeaseId, #[n(1)] AttachmentId),
    /// Attaches a lease to a stream, and renews it. Outcome: [`RenewOutcome`].
    #[n(8)]
    Attach {
        /// The lease.
        #[n(0)]
        lease_id: LeaseId,
        /// The client's count of attachments. The highest wins; among equal ones, the latest.
        #[n(1)]
        attempt: u32,
        /// The stream's attachment of it.
        #[n(2)]
        attachment: AttachmentId,
    },
    /// Detaches a lease from a stream. It lasts until its end. Outcome: [`Outcome::Done`].
    #[n(9)]
    Detach(#[n(0)] LeaseId, #[n(1)] AttachmentId),
    /// Revokes a lease because its stream ended, if this attachment still keeps it. Outcome: [`Outcome::Done`].
    #[n(10)]
    Disconnect(#[n(0)] LeaseId, #[n(1)] AttachmentId),
    /// Revokes the lease with this token. Outcome: [`RevokeOutcome`].
    #[n(11)]
    ForceRelease {
        /// The token of the lease.
        #[n(0)]
        expected: FencingToken,
        /// The operator's reason, for watchers.
        #[n(1)]
        reason: Reason,
    },
    /// Reads the lock. Outcome: [`LockView`].
    #[n(12)]
    View {
        /// The answer says whether a shared lease has this token.
        #[n(0)]
        token: Option<FencingToken>,
    },
    /// Makes an exclusive lease a shared one, or the reverse. Outcome: [`ConvertOutcome`].
    #[n(13)]
    Convert {
        /// The lease.
        #[n(0)]
        lease_id: LeaseId,
        /// Its token, as its holder knows it.
        #[n(1)]
        token: FencingToken,
        /// The mode that it is to have.
        #[n(2)]
        to: ConvertTo,
    },
    /// Replaces what others see of a lease. Outcome: [`DescribeOutcome`].
    #[n(14)]
    Describe {
        /// The lease.
        #[n(0)]
        lease_id: LeaseId,
        /// Its metadata from now on.
        #[n(1)]
        metadata: Metadata,
        /// Its label from now on; `None` keeps it.
        #[n(2)]
        holder: Option<Holder>,
        /// The highest number wins; 0: the one after the last.
        #[n(3)]
        number: u64,
    },
    /// Reads the lock and a part of its queue. Outcome: [`WaitersView`].
    #[n(15)]
    ListWaiters {
        /// The position of the last waiter of the part before.
        #[n(0)]
        after: Option<u64>,
        /// How many waiters to read, at most.
        #[n(1)]
        max: u32,
    },
}

impl Command {
    /// Whether it is an acquire. Under load these wait, and all others pass them.
    pub fn is_acquire(&self) -> bool {
        matches!(self, Self::Acquire(_))
    }
}

/// A request for the lock.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Acquire {
    /// The call that carries it.
    #[n(0)]
    pub call: Call,
    /// What it asks for.
    #[n(1)]
    pub terms: Terms,
    /// Whether to queue if the lock is not free.
    #[n(2)]
    pub wait: bool,
    /// The ids of the lease, should this command grant it.
    #[n(3)]
    pub candidate: Candidate,
}

impl Acquire {
    /// Why a store does not carry it out when a wall clock shows `now`: its `min_token` is too far above that.
    pub fn refusal(&self, now: StoreTime) -> Option<AcquireOutcome> {
        let max = min_token_max(now);
        (self.terms.min_token > max).then_some(AcquireOutcome::MinTokenTooHigh(max))
    }
}

/// The ids of a lease that a command may grant. The server draws them, because the rules contain no randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Candidate {
    /// Proof of ownership.
    #[n(0)]
    pub lease_id: LeaseId,
    /// Public name.
    #[n(1)]
    pub grant_id: GrantId,
    /// The stream that keeps the lease from its grant on, if there is one: its first attachment.
    #[n(2)]
    pub attachment: Option<AttachmentId>,
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Outcome {
    /// Of Acquire, Claim and GiveUp.
    #[n(0)]
    Acquire(#[n(0)] AcquireOutcome),
    /// Of Release.
    #[n(1)]
    Release(#[n(0)] ReleaseOutcome),
    /// Of Renew and Attach.
    #[n(2)]
    Renew(#[n(0)] RenewOutcome),
    /// Of ForceRelease.
    #[n(3)]
    Revoke(#[n(0)] RevokeOutcome),
    /// Of View. Boxed, because it is large.
    #[n(4)]
    View(#[n(0)] Box<LockView>),
    /// The command was carried out. There is nothing else to say.
    #[n(5)]
    Done,
    /// Of Convert.
    #[n(6)]
    Convert(#[n(0)] ConvertOutcome),
    /// Of Describe.
    #[n(7)]
    Describe(#[n(0)] DescribeOutcome),
    /// Of ListWaiters. Boxed, because it is large.
    #[n(8)]
    Waiters(#[n(0)] Box<WaitersView>),
}

/// A store answered a command with an outcome of another kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is the outcome of another command: {0:?}")]
pub struct WrongOutcome(pub Box<Outcome>);

macro_rules! outcomes {
    ($($kind:ident: $type:ty,)+) => {
        $(
            impl From<$type> for Outcome {
                fn from(outcome: $type) -> Self {
                    Self::$kind(outcome)
                }
            }

            impl TryFrom<Outcome> for $type {
                type Error = WrongOutcome;

                fn try_from(outcome: Outcome) -> Result<Self, WrongOutcome> {
                    match outcome {
                        Outcome::$kind(outcome) => Ok(outcome),
                        other => Err(WrongOutcome(Box::new(other))),
                    }
                }
            }
        )+
    };
}

outcomes! {
    Acquire: AcquireOutcome,
    Release: ReleaseOutcome,
    Renew: RenewOutcome,
    Revoke: RevokeOutcome,
    View: Box<LockView>,
    Convert: ConvertOutcome,
    Describe: DescribeOutcome,
    Waiters: Box<WaitersView>,
}

impl TryFrom<Outcome> for () {
    type Error = WrongOutcome;

    fn try_from(outcome: Outcome) -> Result<Self, WrongOutcome> {
        if outcome == Outcome::Done { Ok(()) } else { Err(WrongOutcome(Box::new(outcome))) }
    }
}

/// What a command causes beyond its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each lease that ends")]
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
    /// The lock was granted, to the holder of the lease with this token.
    Granted(FencingToken),
    /// A lease was converted or described.
    Changed {
        /// Its token from now on.
        token: FencingToken,
        /// Its token before: a lower one, if the conversion drew one.
        was: FencingToken,
    },
    /// A lease has ended.
    Ended {
        /// Its last state.
        lease: Lease,
        /// How it ended.
        end: LeaseEnd,
    },
    /// Somebody waits whom a lease excludes.
    Wanted {
        /// The server replica of the stream that keeps the lease.
        replica: ReplicaId,
        /// Its attachment of the lease.
        attachment: AttachmentId,
        /// The mode that is waited for.
        mode: ModeName,
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
}

/// The effects of one command, in order. Few commands have more than two.
pub type Effects = SmallVec<[Effect; 2]>;
