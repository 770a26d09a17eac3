//! Notices of a store: hints, grants and events that no command waits for.
//!
//! A hint may be lost. A call that receives one asks the store again; a call that misses one is served as well, only
//! later.

use super::{AuditNote, Timed};
use crate::domain::{
    codec,
    command::{Command, Effect, Effects},
    ids::{AttachmentId, Call, GrantId, ReplicaId, RequestId},
    lease::{Lease, LeaseEnd, MaxHold},
    mode::ModeName,
    name::{Identity, LockName},
    outcome::AcquireOutcome,
    rules::Lock,
    token::FencingToken,
};
use minicbor::{Decode, Encode};
use std::borrow::Cow;

/// The reason that watchers see when a lease is revoked because its stream ended.
const STREAM_ENDED: &str = "stream ended";

/// An event of a lock, for watchers.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Event {
    /// Its kind.
    #[n(0)]
    pub kind: EventKind,
    /// The lock.
    #[n(1)]
    pub name: LockName,
    /// The label of the lease's holder.
    #[cbor(n(2), decode_with = "codec::label")]
    pub holder: String,
    /// The lease's public name.
    #[n(3)]
    pub grant_id: GrantId,
    /// Its token.
    #[n(4)]
    pub token: FencingToken,
    /// Its `max_hold`, if it expired because of that.
    #[n(5)]
    pub max_hold: Option<MaxHold>,
    /// Who its holder is, where that was verified.
    #[n(6)]
    pub identity: Option<Identity>,
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum EventKind {
    /// The lease was granted.
    #[n(0)]
    Granted,
    /// Its holder released it.
    #[n(1)]
    Released,
    /// Its TTL ran out.
    #[n(2)]
    Expired,
    /// It was revoked, for this reason.
    #[n(3)]
    Revoked(#[cbor(n(0), decode_with = "codec::reason")] String),
    /// Its holder converted or described it, and it has this mode now.
    #[n(4)]
    Changed(#[n(0)] ModeName),
}

/// A notice that the rules caused.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Notice {
    /// See [`Notices::look_again`].
    #[n(0)]
    LookAgain(#[n(0)] RequestId, #[n(1)] u32),
    /// See [`Notices::lease_ended`].
    #[n(1)]
    LeaseEnded(#[n(0)] AttachmentId, #[n(1)] LeaseEnd),
    /// See [`Notices::detached`].
    #[n(2)]
    Detached(#[n(0)] AttachmentId),
    /// See [`Notices::event`].
    #[n(3)]
    Event(#[n(0)] Box<Event>),
    /// See [`Notices::wanted`].
    #[n(4)]
    Wanted(#[n(0)] AttachmentId, #[n(1)] ModeName),
}

impl Notice {
    /// Gives `each` the notices of the effects of one turn on this lock, in order, with the server that each is for;
    /// events are for all. `reason` is that of the turn's command ([`reason_of`]). Events are made only if they are
    /// watched.
    pub fn of(
        effects: &Effects,
        name: &LockName,
        lock: &Lock,
        reason: &str,
        is_watched: bool,
        mut each: impl FnMut(Option<ReplicaId>, Self),
    ) {
        for effect in effects {
            match *effect {
                Effect::LookAgain { replica, request, attempt } => {
                    each(Some(replica), Self::LookAgain(request, attempt));
                }
                Effect::Detached { replica, attachment, .. } => each(Some(replica), Self::Detached(attachment)),
                Effect::Granted(token) if is_watched => {
                    if let Some(lease) = lock.lease_of(token) {
                        each(None, Self::event(EventKind::Granted, name, lease, None));
                    }
                }
                Effect::Changed { token, .. } if is_watched => {
                    if let Some(lease) = lock.lease_of(token) {
                        each(None, Self::event(EventKind::Changed(lease.terms.mode.name()), name, lease, None));
                    }
                }
                Effect::Granted(_) | Effect::Changed { .. } => {}
                Effect::Wanted { replica, attachment, mode } => each(Some(replica), Self::Wanted(attachment, mode)),
                Effect::Ended { ref lease, end } => {
                    if let Some(attachment) = lease.attachment {
                        each(Some(lease.attachment_replica), Self::LeaseEnded(attachment, end));
                    }
                    if is_watched {
                        let kind = match end {
                            LeaseEnd::Released => EventKind::Released,
                            LeaseEnd::Expired => EventKind::Expired,
                            LeaseEnd::Revoked => EventKind::Revoked(reason.to_owned()),
                        };
                        let max_hold = lease.max_hold_reached().filter(|_| end == LeaseEnd::Expired);
                        each(None, Self::event(kind, name, lease, max_hold));
                    }
                }
            }
        }
    }

    fn event(kind: EventKind, name: &LockName, lease: &Lease, max_hold: Option<MaxHold>) -> Self {
        Self::Event(Box::new(Event {
            kind,
            name: name.clone(),
            holder: lease.terms.holder.as_str().to_owned(),
            grant_id: lease.grant_id,
            token: lease.token,
            max_hold,
            identity: lease.terms.extra.as_ref().and_then(|extra| extra.identity.clone()),
        }))
    }

    /// Passes it on.
    pub fn deliver_to(self, notices: &dyn Notices) {
        match self {
            Self::LookAgain(request, attempt) => notices.look_again(request, attempt),
            Self::LeaseEnded(attachment, end) => notices.lease_ended(attachment, end),
            Self::Detached(attachment) => notices.detached(attachment),
            Self::Wanted(attachment, mode) => notices.wanted(attachment, mode),
            Self::Event(event) => notices.event(*event),
        }
    }
}

/// What watchers are told if this command revokes a lease.
pub fn reason_of(command: &Command) -> Cow<'static, str> {
    match command {
        Command::ForceRelease { reason, .. } => Cow::Owned(reason.as_str().to_owned()),
        Command::Disconnect(..) => Cow::Borrowed(STREAM_ENDED),
        _ => Cow::Borrowed(""),
    }
}

/// Receives the notices. Called while the store holds a mutex of its own: implementations are quick, do not block, and
/// do not call the store.
pub trait Notices: Send + Sync + 'static {
    /// The calls of this attempt should claim: they were offered the lock, or are no longer bound.
    fn look_again(&self, request: RequestId, attempt: u32);

    /// Gives a waiting call the outcome of a claim that the store made for it, together with what freed the lock. False
    /// if the call does not wait here any more: then its cleanup has been posted, or will be.
    fn claimed(&self, call: Call, outcome: Timed<AcquireOutcome>) -> bool;

    /// Whether a call of this attempt waits here that can take the lock now: its client takes data.
    fn is_alive(&self, request: RequestId, attempt: u32) -> bool;

    /// A lease that this attachment keeps has ended.
    fn lease_ended(&self, attachment: AttachmentId, end: LeaseEnd);

    /// The attachment was replaced by a newer one.
    fn detached(&self, attachment: AttachmentId);

    /// Somebody waits for a lock whose lease this attachment keeps, and which the lease keeps from getting it.
    fn wanted(&self, attachment: AttachmentId, mode: ModeName);

    /// Whether anybody watches: if not, events need not be made.
    fn is_watched(&self) -> bool;

    /// An event. Events of one lock come in order.
    fn event(&self, event: Event);

    /// Whether the audit log has grants and ends of leases: if not, notes need not be made.
    fn is_audited(&self) -> bool;

    /// A note for the audit log: certain, and passed to no other server.
    fn audit(&self, note: AuditNote);

    /// Notices about leases and calls may have been lost. The store itself looks after the calls; a stream asks for its
    /// leases with its next beats.
    fn hints_lost(&self);

    /// Events may have been lost: watchers should look for themselves.
    fn events_lost(&self);
}

/// Records hints and claims, and ignores the rest.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct TestNotices {
    /// Whether no waiting client reads.
    pub(crate) stalled: bool,
    pub(crate) hints: crate::sync::Mutex<Vec<RequestId>>,
    pub(crate) claimed: crate::sync::Mutex<Vec<(Call, Timed<AcquireOutcome>)>>,
}

#[cfg(test)]
impl Notices for TestNotices {
    fn look_again(&self, request: RequestId, _: u32) {
        self.hints.lock().push(request);
    }

    fn claimed(&self, call: Call, outcome: Timed<AcquireOutcome>) -> bool {
        self.claimed.lock().push((call, outcome));
        true
    }

    fn is_alive(&self, _: RequestId, _: u32) -> bool {
        !self.stalled
    }

    fn lease_ended(&self, _: AttachmentId, _: LeaseEnd) {}

    fn detached(&self, _: AttachmentId) {}

    fn wanted(&self, _: AttachmentId, _: ModeName) {}

    fn is_watched(&self) -> bool {
        false
    }

    fn event(&self, _: Event) {}

    fn is_audited(&self) -> bool {
        false
    }

    fn audit(&self, _: AuditNote) {}

    fn hints_lost(&self) {}

    fn events_lost(&self) {}
}
