//! What the messages of frames share: who sends, ballots, calls and what they ask for.

use crate::{
    domain::{
        command::{Acquire, Candidate},
        ids::{AttachmentId, Call, CallId, GrantId, LeaseId, RequestId},
        lease::Terms,
        name::Holder,
        time::micros,
    },
    store::{
        fields::{self, FieldError, Id},
        quorum::ballot::{Ballot, ServerId},
    },
};
use std::time::Duration;

/// A server, as two numbers.
#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct ServerMessage {
    #[prost(fixed64, tag = "1")]
    high: u64,
    #[prost(fixed32, tag = "2")]
    low: u32,
}

impl From<ServerId> for ServerMessage {
    fn from(ServerId([a, b, c, d, e, f, g, h, low @ ..]): ServerId) -> Self {
        Self { high: u64::from_be_bytes([a, b, c, d, e, f, g, h]), low: u32::from_be_bytes(low) }
    }
}

impl From<ServerMessage> for ServerId {
    fn from(ServerMessage { high, low }: ServerMessage) -> Self {
        let mut bytes = [0; 12];
        let (first, last) = bytes.split_at_mut(8);
        first.copy_from_slice(&high.to_be_bytes());
        last.copy_from_slice(&low.to_be_bytes());
        Self(bytes)
    }
}

/// A ballot, with its server as two numbers.
#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct BallotMessage {
    #[prost(uint64, tag = "1")]
    round: u64,
    #[prost(fixed64, tag = "2")]
    high: u64,
    #[prost(fixed32, tag = "3")]
    low: u32,
}

impl From<Ballot> for BallotMessage {
    fn from(Ballot { round, server }: Ballot) -> Self {
        let ServerMessage { high, low } = server.into();
        Self { round, high, low }
    }
}

impl From<BallotMessage> for Ballot {
    fn from(BallotMessage { round, high, low }: BallotMessage) -> Self {
        Self { round, server: ServerMessage { high, low }.into() }
    }
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct CallMessage {
    #[prost(message, optional, tag = "1")]
    request: Option<Id>,
    #[prost(uint32, tag = "2")]
    attempt: u32,
    #[prost(fixed64, tag = "3")]
    id: u64,
}

impl From<Call> for CallMessage {
    fn from(Call { request, attempt, id }: Call) -> Self {
        Self { request: Id::of(request.0), attempt, id: id.0 }
    }
}

impl CallMessage {
    fn read(self) -> Result<Call, FieldError> {
        let request = RequestId(fields::id(self.request, "request id")?);
        Ok(Call { request, attempt: self.attempt, id: CallId(self.id) })
    }
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct CandidateMessage {
    #[prost(message, optional, tag = "1")]
    lease_id: Option<Id>,
    #[prost(message, optional, tag = "2")]
    grant_id: Option<Id>,
    #[prost(message, optional, tag = "3")]
    attachment: Option<Id>,
}

impl From<Candidate> for CandidateMessage {
    fn from(Candidate { lease_id, grant_id, attachment }: Candidate) -> Self {
        let attachment = attachment.and_then(|attachment| Id::of(attachment.0));
        Self { lease_id: Id::of(lease_id.0), grant_id: Id::of(grant_id.0), attachment }
    }
}

impl CandidateMessage {
    fn read(self) -> Result<Candidate, FieldError> {
        Ok(Candidate {
            lease_id: LeaseId(fields::id(self.lease_id, "lease id")?),
            grant_id: GrantId(fields::id(self.grant_id, "grant id")?),
            attachment: self.attachment.map(|id| AttachmentId(id.read())),
        })
    }
}

/// What a call asks for: the fields of its terms are in here too.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct AcquireMessage {
    #[prost(message, optional, tag = "1")]
    call: Option<CallMessage>,
    #[prost(fixed64, tag = "2")]
    fingerprint: u64,
    /// In microseconds.
    #[prost(uint64, tag = "3")]
    ttl: u64,
    #[prost(string, tag = "4")]
    holder: String,
    /// Keys and values by turns.
    #[prost(string, repeated, tag = "5")]
    metadata: Vec<String>,
    #[prost(uint64, tag = "6")]
    min_token: u64,
    #[prost(bool, tag = "7")]
    wait: bool,
    #[prost(message, optional, tag = "8")]
    candidate: Option<CandidateMessage>,
}

impl From<Acquire> for AcquireMessage {
    fn from(acquire: Acquire) -> Self {
        // Names each field, so that a new one is not forgotten.
        let Acquire { call, terms: Terms { fingerprint, ttl, holder, metadata, min_token }, wait, candidate } = acquire;
        Self {
            call: Some(call.into()),
            fingerprint,
            ttl: micros(ttl),
            holder: holder.into_string(),
            metadata: fields::texts(&metadata),
            min_token,
            wait,
            candidate: Some(candidate.into()),
        }
    }
}

impl AcquireMessage {
    pub(super) fn read(self) -> Result<Acquire, FieldError> {
        Ok(Acquire {
            call: call(self.call)?,
            terms: Terms {
                fingerprint: self.fingerprint,
                ttl: Duration::from_micros(self.ttl),
                holder: fields::checked("holder", Holder::new(self.holder))?,
                metadata: fields::metadata(self.metadata)?,
                min_token: self.min_token,
            },
            wait: self.wait,
            candidate: candidate(self.candidate)?,
        })
    }
}

pub(super) fn call(message: Option<CallMessage>) -> Result<Call, FieldError> {
    fields::part(message, "call")?.read()
}

pub(super) fn candidate(message: Option<CandidateMessage>) -> Result<Candidate, FieldError> {
    fields::part(message, "candidate")?.read()
}

pub(super) fn ballot(message: Option<BallotMessage>, field: &'static str) -> Result<Ballot, FieldError> {
    fields::part(message, field).map(Ballot::from)
}

pub(super) fn lease_id(id: Option<Id>) -> Result<LeaseId, FieldError> {
    fields::id(id, "lease id").map(LeaseId)
}

pub(super) fn attachment(id: Option<Id>) -> Result<AttachmentId, FieldError> {
    fields::id(id, "attachment").map(AttachmentId)
}

/// The number of a partition.
pub(super) fn partition(number: u32) -> Result<u16, FieldError> {
    u16::try_from(number).map_err(|_| FieldError::number("partition", number))
}

/// A number of things that fit into memory.
pub(super) fn count(number: u64, field: &'static str) -> Result<usize, FieldError> {
    usize::try_from(number).map_err(|_| FieldError::number(field, number))
}
