//! Notices of a store: hints, grants and events that no command waits for.
//!
//! A hint may be lost. A call that receives one asks the store again; a call that misses one is served as well, only
//! later.

use super::Timed;
use crate::domain::{
    ids::{AttachmentId, Call, GrantId, RequestId},
    lease::LeaseEnd,
    name::LockName,
    outcome::AcquireOutcome,
    token::FencingToken,
};

/// An event of a lock, for watchers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its kind.
    pub kind: EventKind,
    /// The lock.
    pub name: LockName,
    /// The label of the lease's holder.
    pub holder: String,
    /// The lease's public name.
    pub grant_id: GrantId,
    /// Its token.
    pub token: FencingToken,
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The lease was granted.
    Granted,
    /// Its holder released it.
    Released,
    /// Its TTL ran out.
    Expired,
    /// It was revoked, for this reason.
    Revoked(String),
}

/// Receives the notices. Called while the store holds a mutex of its own: implementations are quick, do not block, and
/// do not call the store.
pub trait Notices: Send + Sync + 'static {
    /// The calls of this attempt should claim: they were offered the lock, or are no longer bound.
    fn look_again(&self, request: RequestId, attempt: u32);

    /// Gives a waiting call the outcome of a claim that the store made for it, together with a release. False if the
    /// call does not wait here any more: then its cleanup has been posted, or will be.
    fn claimed(&self, call: Call, outcome: Timed<AcquireOutcome>) -> bool;

    /// Whether a call of this attempt waits here that can take the lock now: its client takes data.
    fn is_alive(&self, request: RequestId, attempt: u32) -> bool;

    /// A lease that this attachment keeps has ended.
    fn lease_ended(&self, attachment: AttachmentId, end: LeaseEnd);

    /// The attachment was replaced by a newer one.
    fn detached(&self, attachment: AttachmentId);

    /// Whether anybody watches: if not, events need not be made.
    fn is_watched(&self) -> bool;

    /// An event. Events of one lock come in order.
    fn event(&self, event: Event);

    /// Notices about leases and calls may have been lost. The store itself looks after the calls; a stream asks for its
    /// leases with its next beats.
    fn hints_lost(&self);

    /// Events may have been lost: watchers should look for themselves.
    fn events_lost(&self);
}
