//! Commands on one lock.

use super::wire::{self, AcquireMessage, CallMessage, CandidateMessage};
use crate::{
    domain::{
        command::Command,
        ids::RequestId,
        name::{LockName, Reason},
        time::micros,
    },
    store::fields::{self, FieldError, Id},
};
use std::time::Duration;

/// A command, and the lock that it is for.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct RunMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(oneof = "Kind", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14")]
    command: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
#[prost(skip_debug)]
enum Kind {
    #[prost(message, tag = "2")]
    Acquire(AcquireMessage),
    #[prost(message, tag = "3")]
    Claim(ClaimMessage),
    #[prost(message, tag = "4")]
    GiveUp(CallMessage),
    #[prost(message, tag = "5")]
    DropCall(CallMessage),
    #[prost(message, tag = "6")]
    Decline(DeclineMessage),
    #[prost(message, tag = "7")]
    Release(Id),
    #[prost(message, tag = "8")]
    Renew(RenewMessage),
    #[prost(message, tag = "9")]
    RenewKept(AttachedMessage),
    #[prost(message, tag = "10")]
    Attach(AttachedMessage),
    #[prost(message, tag = "11")]
    Detach(AttachedMessage),
    #[prost(message, tag = "12")]
    Disconnect(AttachedMessage),
    #[prost(message, tag = "13")]
    ForceRelease(ForceReleaseMessage),
    #[prost(message, tag = "14")]
    View(()),
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct ClaimMessage {
    #[prost(message, optional, tag = "1")]
    call: Option<CallMessage>,
    #[prost(message, optional, tag = "2")]
    candidate: Option<CandidateMessage>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct DeclineMessage {
    #[prost(message, optional, tag = "1")]
    request: Option<Id>,
    #[prost(uint32, tag = "2")]
    attempt: u32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct RenewMessage {
    #[prost(message, optional, tag = "1")]
    lease_id: Option<Id>,
    /// In microseconds.
    #[prost(uint64, optional, tag = "2")]
    ttl: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct AttachedMessage {
    #[prost(message, optional, tag = "1")]
    lease_id: Option<Id>,
    #[prost(message, optional, tag = "2")]
    attachment: Option<Id>,
    /// Of Attach alone.
    #[prost(uint32, tag = "3")]
    attempt: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct ForceReleaseMessage {
    #[prost(uint64, tag = "1")]
    expected: u64,
    #[prost(string, tag = "2")]
    reason: String,
}

impl RunMessage {
    pub(super) fn of(name: LockName, command: Command) -> Self {
        Self { name: name.into_string(), command: Some(kind(command)) }
    }

    pub(super) fn read(self) -> Result<(LockName, Command), FieldError> {
        let name = fields::checked("lock name", LockName::new(self.name))?;
        Ok((name, read(fields::part(self.command, "command")?)?))
    }
}

fn kind(command: Command) -> Kind {
    let attached = |lease_id, attachment, attempt| AttachedMessage {
        lease_id: Id::of(lease_id),
        attachment: Id::of(attachment),
        attempt,
    };
    match command {
        Command::Acquire(acquire) => Kind::Acquire(acquire.into()),
        Command::Claim(call, candidate) => {
            Kind::Claim(ClaimMessage { call: Some(call.into()), candidate: Some(candidate.into()) })
        }
        Command::GiveUp(call) => Kind::GiveUp(call.into()),
        Command::DropCall(call) => Kind::DropCall(call.into()),
        Command::Decline { request, attempt } => Kind::Decline(DeclineMessage { request: Id::of(request.0), attempt }),
        Command::Release(lease_id) => Kind::Release(Id::from(lease_id.0)),
        Command::Renew { lease_id, ttl } => {
            Kind::Renew(RenewMessage { lease_id: Id::of(lease_id.0), ttl: ttl.map(micros) })
        }
        Command::RenewKept(lease_id, attachment) => Kind::RenewKept(attached(lease_id.0, attachment.0, 0)),
        Command::Attach { lease_id, attempt, attachment } => Kind::Attach(attached(lease_id.0, attachment.0, attempt)),
        Command::Detach(lease_id, attachment) => Kind::Detach(attached(lease_id.0, attachment.0, 0)),
        Command::Disconnect(lease_id, attachment) => Kind::Disconnect(attached(lease_id.0, attachment.0, 0)),
        Command::ForceRelease { expected, reason } => {
            Kind::ForceRelease(ForceReleaseMessage { expected: expected.get(), reason: reason.as_str().to_owned() })
        }
        Command::View => Kind::View(()),
    }
}

fn read(kind: Kind) -> Result<Command, FieldError> {
    let attached =
        |message: AttachedMessage| Ok((wire::lease_id(message.lease_id)?, wire::attachment(message.attachment)?));
    Ok(match kind {
        Kind::Acquire(message) => Command::Acquire(message.read()?),
        Kind::Claim(ClaimMessage { call, candidate }) => Command::Claim(wire::call(call)?, wire::candidate(candidate)?),
        Kind::GiveUp(call) => Command::GiveUp(wire::call(Some(call))?),
        Kind::DropCall(call) => Command::DropCall(wire::call(Some(call))?),
        Kind::Decline(DeclineMessage { request, attempt }) => {
            Command::Decline { request: RequestId(fields::id(request, "request id")?), attempt }
        }
        Kind::Release(id) => Command::Release(wire::lease_id(Some(id))?),
        Kind::Renew(RenewMessage { lease_id, ttl }) => {
            Command::Renew { lease_id: wire::lease_id(lease_id)?, ttl: ttl.map(Duration::from_micros) }
        }
        Kind::RenewKept(message) => {
            let (lease_id, attachment) = attached(message)?;
            Command::RenewKept(lease_id, attachment)
        }
        Kind::Attach(message) => {
            let (lease_id, attachment) = attached(message)?;
            Command::Attach { lease_id, attempt: message.attempt, attachment }
        }
        Kind::Detach(message) => {
            let (lease_id, attachment) = attached(message)?;
            Command::Detach(lease_id, attachment)
        }
        Kind::Disconnect(message) => {
            let (lease_id, attachment) = attached(message)?;
            Command::Disconnect(lease_id, attachment)
        }
        Kind::ForceRelease(ForceReleaseMessage { expected, reason }) => Command::ForceRelease {
            expected: fields::token(expected)?,
            reason: fields::checked("reason", Reason::new(reason))?,
        },
        Kind::View(()) => Command::View,
    })
}
