//! Keeping alive: any number of leases on one stream, at the server's pace.
//!
//! The server sends beats; only the client's answers renew. So a client that is paused, or cut off, or whose read loop
//! is stuck stops renewing, whatever its kernel and its transport go on acknowledging (etcd #17470: leases kept alive
//! after their client was gone).

mod expected;
mod inbox;
mod keeping;
mod measured;
mod pace;
mod restricted;
mod stream;
mod timing;

pub(super) use inbox::{Inbox, StreamNotice};
pub(super) use keeping::Keeping;
pub use stream::keep_alive;

use super::LocksError;
use crate::domain::{
    ids::{AttachmentId, LeaseId},
    limits::BEAT_PERIOD_MAX,
    mode::ModeName,
    name::LockName,
    outcome::{Fate, Gone},
};
use std::time::Duration;
use uuid::Uuid;

/// A message from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// Attaches these leases.
    Attach(Vec<AttachLease>),
    /// Detaches the leases with these handles.
    Detach(Vec<u32>),
    /// Answers the beat with this number.
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
    /// Whether to revoke the lease when the stream ends, unless the server ended it.
    pub release_on_disconnect: bool,
}

/// A message to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToClient {
    /// A beat, to be answered.
    Beat {
        /// Its number.
        beat: u64,
        /// When the next one is due.
        next_in: Duration,
    },
    /// These leases are attached, and renewed by that.
    Attached(Vec<Group>),
    /// The answer to this beat renewed these leases.
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
    /// The store cannot be reached for these leases, or is overloaded.
    AtRisk(Vec<u32>),
    /// A lease is no longer kept by this stream.
    Detached {
        /// Which.
        handle: u32,
        /// Why.
        reason: DetachReason,
    },
    /// Somebody waits for the lock of a lease.
    Wanted {
        /// Which.
        handle: u32,
        /// The mode that is waited for.
        mode: ModeName,
    },
    /// The server drains, and ends the stream after this time.
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
    /// A newer attachment replaced this one.
    AttachedElsewhere,
    /// The stream carries the maximum number of leases.
    StreamFull,
}

/// Why a stream ends. The text of a number that breaks a rule follows the name of its field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The client attached two leases under one number.
    #[error("{0} is in use on this stream: attach under another one, or detach it first")]
    HandleInUse(u32),
    /// The client gave two operations one number, or none.
    #[error("{0} is 0 or in use: use a number above 0 that no other operation in flight has")]
    OperationNumber(u64),
    /// The client answered a beat that was not sent.
    #[error("{0} was not sent on this stream")]
    BeatNotSent(u64),
    /// The client answered an earlier beat after a later one.
    #[error("{beat} was answered after {answered}: answers must be in the order of the beats")]
    BeatBackwards {
        /// The beat that it answers now.
        beat: u64,
        /// The beat that it answered before.
        answered: u64,
    },
    /// The server has drained.
    #[error(transparent)]
    Gone(#[from] LocksError),
}

/// Why a session or a KeepAlive stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError<E> {
    /// The service ended it.
    Stream(StreamError),
    /// The transport broke, or a message could not be decoded.
    Inbound(E),
}

/// The fate of a lease whose successor is not known.
fn ended(end: crate::domain::lease::LeaseEnd) -> Gone {
    Gone { fate: Fate::Ended(end), successor: None }
}

/// The id of an attachment contains the id of its stream and the handle.
fn attachment_id(stream: u64, attachment: u32, handle: u32) -> AttachmentId {
    AttachmentId(Uuid::from_u64_pair(stream, u64::from(attachment) << 32 | u64::from(handle)))
}

fn handle_of(attachment: AttachmentId) -> u32 {
    let low = attachment.0.as_u64_pair().1 & u64::from(u32::MAX);
    u32::try_from(low).unwrap_or_default()
}

const _: () = assert!(BEAT_PERIOD_MAX.as_secs() > 0, "a stream without leases beats too");
