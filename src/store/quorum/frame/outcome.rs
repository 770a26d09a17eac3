//! Outcomes of commands. Spans are in whole microseconds, rounded down: so no lease seems to have more left than it
//! has.

use super::view::{ContentionMessage, LockViewMessage};
use crate::{
    domain::{
        command::Outcome,
        ids::{GrantId, LeaseId},
        name::Holder,
        outcome::{AcquireOutcome, Fate, Gone, Grant, ReleaseOutcome, RenewOutcome, Renewed, RevokeOutcome},
        time::micros,
    },
    store::fields::{self, FieldError, Id},
};
use std::time::Duration;

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct OutcomeMessage {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
#[prost(skip_debug)]
enum Kind {
    #[prost(message, tag = "1")]
    Acquire(AcquireOutcomeMessage),
    /// Without a fate if this command released the lease.
    #[prost(message, tag = "2")]
    Release(GoneMessage),
    #[prost(message, tag = "3")]
    Renew(RenewOutcomeMessage),
    #[prost(message, tag = "4")]
    Revoke(RevokeOutcomeMessage),
    #[prost(message, boxed, tag = "5")]
    View(Box<LockViewMessage>),
    #[prost(message, tag = "6")]
    Done(()),
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct AcquireOutcomeMessage {
    #[prost(oneof = "Acquired", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14")]
    kind: Option<Acquired>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
#[prost(skip_debug)]
enum Acquired {
    #[prost(message, tag = "1")]
    Granted(GrantMessage),
    #[prost(message, boxed, tag = "2")]
    Contended(Box<ContentionMessage>),
    #[prost(message, tag = "3")]
    Queued(()),
    #[prost(message, boxed, tag = "4")]
    TimedOut(Box<ContentionMessage>),
    #[prost(message, tag = "5")]
    Shared(()),
    #[prost(message, tag = "6")]
    Overtaken(()),
    #[prost(message, tag = "7")]
    Ended(()),
    #[prost(message, tag = "8")]
    Unknown(()),
    #[prost(message, tag = "9")]
    OtherTerms(()),
    #[prost(uint64, tag = "10")]
    MinTokenTooHigh(u64),
    #[prost(message, tag = "11")]
    QueueFull(()),
    #[prost(message, tag = "14")]
    TokensExhausted(()),
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct GrantMessage {
    #[prost(message, optional, tag = "1")]
    lease_id: Option<Id>,
    #[prost(message, optional, tag = "2")]
    grant_id: Option<Id>,
    #[prost(uint64, tag = "3")]
    token: u64,
    /// In microseconds.
    #[prost(uint64, tag = "4")]
    left: u64,
    /// 0 if it is not known.
    #[prost(uint32, tag = "5")]
    previous_end: u32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct GoneMessage {
    /// 1 to 3: the end of the lease; 4 and 5: the constants below.
    #[prost(uint32, tag = "1")]
    fate: u32,
    /// 0 if there is none.
    #[prost(uint64, tag = "2")]
    successor: u64,
}

const SUPERSEDED: u32 = 4;
const UNKNOWN: u32 = 5;

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct RenewOutcomeMessage {
    #[prost(oneof = "RenewKind", tags = "1, 2, 3")]
    kind: Option<RenewKind>,
}

#[derive(Clone, Copy, PartialEq, prost::Oneof)]
#[prost(skip_debug)]
enum RenewKind {
    #[prost(message, tag = "1")]
    Renewed(RenewedMessage),
    #[prost(message, tag = "2")]
    Lost(GoneMessage),
    #[prost(message, tag = "3")]
    AttachedElsewhere(()),
}

/// Spans are in microseconds.
#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct RenewedMessage {
    #[prost(uint64, tag = "1")]
    token: u64,
    #[prost(uint64, tag = "2")]
    ttl: u64,
    #[prost(uint64, tag = "3")]
    left: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct RevokeOutcomeMessage {
    #[prost(oneof = "RevokeKind", tags = "1, 2, 3")]
    kind: Option<RevokeKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
#[prost(skip_debug)]
enum RevokeKind {
    /// From this holder.
    #[prost(string, tag = "1")]
    Revoked(String),
    #[prost(message, tag = "2")]
    NotHeld(()),
    #[prost(uint64, tag = "3")]
    TokenMismatch(u64),
}

impl From<Outcome> for OutcomeMessage {
    fn from(outcome: Outcome) -> Self {
        let kind = match outcome {
            Outcome::Acquire(outcome) => Kind::Acquire(outcome.into()),
            Outcome::Release(ReleaseOutcome::Released) => Kind::Release(GoneMessage::default()),
            Outcome::Release(ReleaseOutcome::Gone(gone)) => Kind::Release(gone.into()),
            Outcome::Renew(outcome) => {
                let kind = match outcome {
                    RenewOutcome::Renewed(Renewed { token, ttl, left }) => {
                        RenewKind::Renewed(RenewedMessage { token: token.get(), ttl: micros(ttl), left: micros(left) })
                    }
                    RenewOutcome::Lost(gone) => RenewKind::Lost(gone.into()),
                    RenewOutcome::AttachedElsewhere => RenewKind::AttachedElsewhere(()),
                };
                Kind::Renew(RenewOutcomeMessage { kind: Some(kind) })
            }
            Outcome::Revoke(outcome) => {
                let kind = match outcome {
                    RevokeOutcome::Revoked(holder) => RevokeKind::Revoked(holder.into_string()),
                    RevokeOutcome::NotHeld => RevokeKind::NotHeld(()),
                    RevokeOutcome::TokenMismatch(token) => RevokeKind::TokenMismatch(token.get()),
                };
                Kind::Revoke(RevokeOutcomeMessage { kind: Some(kind) })
            }
            Outcome::View(view) => Kind::View(Box::new((*view).into())),
            Outcome::Done => Kind::Done(()),
        };
        Self { kind: Some(kind) }
    }
}

impl OutcomeMessage {
    pub(super) fn read(self) -> Result<Outcome, FieldError> {
        Ok(match fields::part(self.kind, "outcome")? {
            Kind::Acquire(message) => Outcome::Acquire(message.read()?),
            Kind::Release(gone) if gone == GoneMessage::default() => Outcome::Release(ReleaseOutcome::Released),
            Kind::Release(gone) => Outcome::Release(ReleaseOutcome::Gone(gone.read()?)),
            Kind::Renew(message) => Outcome::Renew(match fields::part(message.kind, "outcome of renew")? {
                RenewKind::Renewed(RenewedMessage { token, ttl, left }) => RenewOutcome::Renewed(Renewed {
                    token: fields::token(token)?,
                    ttl: Duration::from_micros(ttl),
                    left: Duration::from_micros(left),
                }),
                RenewKind::Lost(gone) => RenewOutcome::Lost(gone.read()?),
                RenewKind::AttachedElsewhere(()) => RenewOutcome::AttachedElsewhere,
            }),
            Kind::Revoke(message) => Outcome::Revoke(match fields::part(message.kind, "outcome of force-release")? {
                RevokeKind::Revoked(holder) => RevokeOutcome::Revoked(fields::checked("holder", Holder::new(holder))?),
                RevokeKind::NotHeld(()) => RevokeOutcome::NotHeld,
                RevokeKind::TokenMismatch(token) => RevokeOutcome::TokenMismatch(fields::token(token)?),
            }),
            Kind::View(view) => Outcome::View(Box::new(view.read()?)),
            Kind::Done(()) => Outcome::Done,
        })
    }
}

impl From<AcquireOutcome> for AcquireOutcomeMessage {
    fn from(outcome: AcquireOutcome) -> Self {
        let kind = match outcome {
            AcquireOutcome::Granted(grant) => Acquired::Granted(grant.into()),
            AcquireOutcome::Contended(contention) => Acquired::Contended(Box::new((*contention).into())),
            AcquireOutcome::Queued => Acquired::Queued(()),
            AcquireOutcome::TimedOut(contention) => Acquired::TimedOut(Box::new((*contention).into())),
            AcquireOutcome::Shared => Acquired::Shared(()),
            AcquireOutcome::Overtaken => Acquired::Overtaken(()),
            AcquireOutcome::Ended => Acquired::Ended(()),
            AcquireOutcome::Unknown => Acquired::Unknown(()),
            AcquireOutcome::OtherTerms => Acquired::OtherTerms(()),
            AcquireOutcome::MinTokenTooHigh(highest) => Acquired::MinTokenTooHigh(highest),
            AcquireOutcome::QueueFull => Acquired::QueueFull(()),
            AcquireOutcome::TokensExhausted => Acquired::TokensExhausted(()),
        };
        Self { kind: Some(kind) }
    }
}

impl AcquireOutcomeMessage {
    pub(super) fn read(self) -> Result<AcquireOutcome, FieldError> {
        Ok(match fields::part(self.kind, "outcome of acquire")? {
            Acquired::Granted(grant) => AcquireOutcome::Granted(grant.read()?),
            Acquired::Contended(contention) => AcquireOutcome::Contended(Box::new(contention.read()?)),
            Acquired::Queued(()) => AcquireOutcome::Queued,
            Acquired::TimedOut(contention) => AcquireOutcome::TimedOut(Box::new(contention.read()?)),
            Acquired::Shared(()) => AcquireOutcome::Shared,
            Acquired::Overtaken(()) => AcquireOutcome::Overtaken,
            Acquired::Ended(()) => AcquireOutcome::Ended,
            Acquired::Unknown(()) => AcquireOutcome::Unknown,
            Acquired::OtherTerms(()) => AcquireOutcome::OtherTerms,
            Acquired::MinTokenTooHigh(highest) => AcquireOutcome::MinTokenTooHigh(highest),
            Acquired::QueueFull(()) => AcquireOutcome::QueueFull,
            Acquired::TokensExhausted(()) => AcquireOutcome::TokensExhausted,
        })
    }
}

impl From<Grant> for GrantMessage {
    fn from(Grant { lease_id, grant_id, token, left, previous_end }: Grant) -> Self {
        Self {
            lease_id: Id::of(lease_id.0),
            grant_id: Id::of(grant_id.0),
            token: token.get(),
            left: micros(left),
            previous_end: previous_end.map_or(0, fields::end_number),
        }
    }
}

impl GrantMessage {
    fn read(self) -> Result<Grant, FieldError> {
        Ok(Grant {
            lease_id: LeaseId(fields::id(self.lease_id, "lease id")?),
            grant_id: GrantId(fields::id(self.grant_id, "grant id")?),
            token: fields::token(self.token)?,
            left: Duration::from_micros(self.left),
            previous_end: fields::end_or_none(self.previous_end, "previous end")?,
        })
    }
}

impl From<Gone> for GoneMessage {
    fn from(Gone { fate, successor }: Gone) -> Self {
        let fate = match fate {
            Fate::Ended(end) => fields::end_number(end),
            Fate::Superseded => SUPERSEDED,
            Fate::Unknown => UNKNOWN,
        };
        Self { fate, successor: successor.map_or(0, |token| token.get()) }
    }
}

impl GoneMessage {
    fn read(self) -> Result<Gone, FieldError> {
        let fate = match (self.fate, fields::end_numbered(self.fate)) {
            (_, Some(end)) => Fate::Ended(end),
            (SUPERSEDED, _) => Fate::Superseded,
            (UNKNOWN, _) => Fate::Unknown,
            (fate, None) => return Err(FieldError::number("fate", fate)),
        };
        Ok(Gone { fate, successor: fields::token_or_none(self.successor)? })
    }
}
