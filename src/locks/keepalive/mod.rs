//! Keeping alive: any number of leases on one stream, at the server's pace.
//!
//! The server sends beats; only the client's answers renew. So a client that is paused, or cut off, or whose read loop
//! is stuck stops renewing, whatever its kernel and its transport go on acknowledging (etcd #17470: leases kept alive
//! after their client was gone).

mod expected;
mod inbox;
mod keeping;
mod pace;

pub(super) use inbox::{Inbox, StreamNotice};
pub(super) use keeping::Keeping;

use super::LocksError;
use crate::domain::{
    ids::LeaseId,
    limits::BEAT_PERIOD_MAX,
    name::LockName,
    outcome::{Fate, Gone},
};
use std::time::Duration;

/// What the client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// Keep these alive.
    Attach(Vec<AttachLease>),
    /// Stop keeping these alive.
    Detach(Vec<u32>),
    /// The answer to the beat of this number.
    Answer(u64),
}

/// A lease to keep alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachLease {
    /// The client's number for it on this stream.
    pub handle: u32,
    /// Its lock.
    pub name: LockName,
    /// The lease.
    pub lease_id: LeaseId,
    /// The client's count of attachments.
    pub attempt: u32,
    /// Whether to take it back when the stream ends without the server's doing.
    pub release_on_disconnect: bool,
}

/// What the server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToClient {
    /// Answer this.
    Beat {
        /// Its number.
        beat: u64,
        /// When the next one is due.
        next_in: Duration,
    },
    /// These are attached, and renewed by it.
    Attached(Vec<Group>),
    /// The answer to this beat renewed these.
    Renewed {
        /// The beat.
        beat: u64,
        /// The leases.
        leases: Vec<Group>,
    },
    /// A lease has ended.
    Lost {
        /// Which.
        handle: u32,
        /// How.
        gone: Gone,
    },
    /// The store cannot be reached for these, or has too much to do.
    AtRisk(Vec<u32>),
    /// A lease is no longer kept by this stream.
    Detached {
        /// Which.
        handle: u32,
        /// Why.
        reason: DetachReason,
    },
    /// The server goes away after this long.
    Draining(Duration),
}

/// Leases with the same time left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// How long they have left.
    pub left: Duration,
    /// Which.
    pub handles: Vec<u32>,
}

/// Why a stream no longer keeps a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetachReason {
    /// The client asked for it.
    Requested,
    /// A newer attachment took over.
    AttachedElsewhere,
    /// The stream carries as many as it may.
    StreamFull,
}

/// Why a stream ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The client attached two leases under one number.
    #[error("handle {0} is in use on this stream: attach under another one, or detach it first")]
    HandleInUse(u32),
    /// The client gave two operations one number, or none.
    #[error("operation {0} is no number for an operation: use one above 0 that no other operation under way has")]
    OperationNumber(u64),
    /// The client answered what it was not asked.
    #[error("beat {0} was not sent on this stream")]
    BeatNotSent(u64),
    /// The client answered an earlier beat after a later one.
    #[error("beat {answered} was answered before: answers must not go backwards, and {beat} does")]
    BeatBackwards {
        /// What it answers now.
        beat: u64,
        /// What it answered before.
        answered: u64,
    },
    /// The server goes away.
    #[error(transparent)]
    Gone(#[from] LocksError),
}

/// A lease that ended without anybody having taken the lock since, as far as is known.
fn ended(end: crate::domain::lease::LeaseEnd) -> Gone {
    Gone { fate: Fate::Ended(end), successor: None }
}

const _: () = assert!(BEAT_PERIOD_MAX.as_secs() > 0, "a stream without leases beats too");
