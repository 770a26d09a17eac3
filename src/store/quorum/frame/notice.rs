//! Notices, for calls, streams and watchers.

use super::wire;
use crate::{
    domain::{
        ids::{GrantId, RequestId},
        limits::REASON_BYTES_MAX,
        name::{Holder, LockName},
    },
    store::{
        fields::{self, FieldError, Id},
        notice::{Event, EventKind, Notice},
    },
};

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct NoticeMessage {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
#[prost(skip_debug)]
enum Kind {
    #[prost(message, tag = "1")]
    LookAgain(LookAgainMessage),
    #[prost(message, tag = "2")]
    LeaseEnded(LeaseEndedMessage),
    #[prost(message, tag = "3")]
    Detached(Id),
    #[prost(message, tag = "4")]
    Event(EventMessage),
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct LookAgainMessage {
    #[prost(message, optional, tag = "1")]
    request: Option<Id>,
    #[prost(uint32, tag = "2")]
    attempt: u32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct LeaseEndedMessage {
    #[prost(message, optional, tag = "1")]
    attachment: Option<Id>,
    #[prost(uint32, tag = "2")]
    end: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct EventMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    holder: String,
    #[prost(message, optional, tag = "3")]
    grant_id: Option<Id>,
    #[prost(uint64, tag = "4")]
    token: u64,
    /// One of the constants below.
    #[prost(uint32, tag = "5")]
    kind: u32,
    /// Of a lease that was revoked.
    #[prost(string, tag = "6")]
    reason: String,
}

const GRANTED: u32 = 1;
const RELEASED: u32 = 2;
const EXPIRED: u32 = 3;
const REVOKED: u32 = 4;

impl From<Notice> for NoticeMessage {
    fn from(notice: Notice) -> Self {
        let kind = match notice {
            Notice::LookAgain(request, attempt) => {
                Kind::LookAgain(LookAgainMessage { request: Id::of(request.0), attempt })
            }
            Notice::LeaseEnded(attachment, end) => {
                Kind::LeaseEnded(LeaseEndedMessage { attachment: Id::of(attachment.0), end: fields::end_number(end) })
            }
            Notice::Detached(attachment) => Kind::Detached(Id::from(attachment.0)),
            Notice::Event(event) => Kind::Event((*event).into()),
        };
        Self { kind: Some(kind) }
    }
}

impl From<Event> for EventMessage {
    fn from(Event { kind, name, holder, grant_id, token }: Event) -> Self {
        let (kind, reason) = match kind {
            EventKind::Granted => (GRANTED, String::new()),
            EventKind::Released => (RELEASED, String::new()),
            EventKind::Expired => (EXPIRED, String::new()),
            EventKind::Revoked(reason) => (REVOKED, reason),
        };
        Self { name: name.into_string(), holder, grant_id: Id::of(grant_id.0), token: token.get(), kind, reason }
    }
}

impl NoticeMessage {
    pub(super) fn read(self) -> Result<Notice, FieldError> {
        Ok(match fields::part(self.kind, "notice")? {
            Kind::LookAgain(LookAgainMessage { request, attempt }) => {
                Notice::LookAgain(RequestId(fields::id(request, "request id")?), attempt)
            }
            Kind::LeaseEnded(LeaseEndedMessage { attachment, end }) => {
                let end = fields::end_numbered(end).ok_or_else(|| FieldError::number("end", end))?;
                Notice::LeaseEnded(wire::attachment(attachment)?, end)
            }
            Kind::Detached(id) => Notice::Detached(wire::attachment(Some(id))?),
            Kind::Event(event) => Notice::Event(Box::new(event.read()?)),
        })
    }
}

impl EventMessage {
    fn read(self) -> Result<Event, FieldError> {
        let kind = match self.kind {
            GRANTED => EventKind::Granted,
            RELEASED => EventKind::Released,
            EXPIRED => EventKind::Expired,
            REVOKED => EventKind::Revoked(reason(self.reason)?),
            kind => return Err(FieldError::number("kind of event", kind)),
        };
        Ok(Event {
            kind,
            name: fields::checked("lock name", LockName::new(self.name))?,
            holder: fields::checked("holder", Holder::new(self.holder))?.into_string(),
            grant_id: GrantId(fields::id(self.grant_id, "grant id")?),
            token: fields::token(self.token)?,
        })
    }
}

/// An operator's reason, or what the server says itself, which may be nothing.
fn reason(reason: String) -> Result<String, FieldError> {
    if reason.len() > REASON_BYTES_MAX {
        return Err(FieldError::Broken("reason", format!("has {} bytes: too many", reason.len())));
    }
    Ok(reason)
}
