//! What a server tells all others: one message, behind which come those of its lists.

use super::{
    FrameError, LAYOUT, Led, OfStranger, TOLD_BYTES_MAX, Told,
    stream::{Messages, put},
    wire::{self, BallotMessage, ServerMessage},
};
use crate::{
    domain::time::StoreTime,
    store::{
        fields::{self, FieldError, Id},
        quorum::ballot::{Ballot, ServerId, Stamp},
    },
};
use uuid::Uuid;

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct ToldMessage {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(bool, tag = "2")]
    watches: bool,
    #[prost(bool, tag = "3")]
    leaves: bool,
    /// So many of each follow.
    #[prost(uint64, tag = "4")]
    leads: u64,
    #[prost(uint64, tag = "5")]
    notices: u64,
    #[prost(uint64, tag = "6")]
    strangers: u64,
    #[prost(bool, tag = "7")]
    left: bool,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct LedMessage {
    #[prost(uint32, tag = "1")]
    partition: u32,
    #[prost(uint64, tag = "2")]
    round: u64,
    /// In microseconds.
    #[prost(uint64, tag = "3")]
    now: u64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct SentMessage {
    #[prost(message, optional, tag = "1")]
    server: Option<ServerMessage>,
    #[prost(uint64, tag = "2")]
    count: u64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct StrangerMessage {
    #[prost(uint32, tag = "1")]
    partition: u32,
    #[prost(message, optional, tag = "2")]
    next: Option<Id>,
    #[prost(message, optional, tag = "3")]
    memory: Option<BallotMessage>,
    #[prost(message, optional, tag = "4")]
    written: Option<BallotMessage>,
    #[prost(message, optional, tag = "5")]
    highest: Option<BallotMessage>,
    #[prost(uint64, tag = "6")]
    token: u64,
}

impl Told {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Self { count, watches, leaves, left, leads, notices, strangers } = self;
        let mut out = vec![LAYOUT];
        put(
            &mut out,
            &ToldMessage {
                count: *count,
                watches: *watches,
                leaves: *leaves,
                leads: leads.len() as u64,
                notices: notices.len() as u64,
                strangers: strangers.len() as u64,
                left: *left,
            },
        );
        leads.iter().for_each(|led| put(&mut out, &LedMessage::from(*led)));
        notices.iter().for_each(|sent| put(&mut out, &SentMessage::from(*sent)));
        strangers.iter().for_each(|stranger| put(&mut out, &StrangerMessage::from(*stranger)));
        out
    }

    /// Reads what another server told.
    ///
    /// # Errors
    ///
    /// The bytes are those of another version of the server, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let mut messages = Messages::of(bytes, TOLD_BYTES_MAX)?;
        let ToldMessage { count, watches, leaves, leads, notices, strangers, left } = messages.next()?;
        let told = Self {
            count,
            watches,
            leaves,
            left,
            leads: messages.list(leads, LedMessage::read)?,
            notices: messages.list(notices, SentMessage::read)?,
            strangers: messages.list(strangers, StrangerMessage::read)?,
        };
        if messages.is_at_end() { Ok(told) } else { Err(FrameError::TooMany) }
    }
}

impl From<Led> for LedMessage {
    fn from(Led { partition, round, now }: Led) -> Self {
        Self { partition: partition.into(), round, now: now.as_micros() }
    }
}

impl LedMessage {
    fn read(self) -> Result<Led, FieldError> {
        let partition = wire::partition(self.partition)?;
        Ok(Led { partition, round: self.round, now: StoreTime::from_micros(self.now) })
    }
}

impl From<(ServerId, u64)> for SentMessage {
    fn from((server, count): (ServerId, u64)) -> Self {
        Self { server: Some(server.into()), count }
    }
}

impl SentMessage {
    fn read(self) -> Result<(ServerId, u64), FieldError> {
        Ok((fields::part(self.server, "server")?.into(), self.count))
    }
}

impl From<OfStranger> for StrangerMessage {
    fn from(OfStranger { partition, next, memory, written, highest, token }: OfStranger) -> Self {
        Self {
            partition: partition.into(),
            next: Id::of(Uuid::from_u128(next.0)),
            memory: memory.map(BallotMessage::from),
            written: Some(written.into()),
            highest: Some(highest.into()),
            token,
        }
    }
}

impl StrangerMessage {
    fn read(self) -> Result<OfStranger, FieldError> {
        Ok(OfStranger {
            partition: wire::partition(self.partition)?,
            next: Stamp(fields::id(self.next, "next membership")?.as_u128()),
            memory: self.memory.map(Ballot::from),
            written: wire::ballot(self.written, "ballot written")?,
            highest: wire::ballot(self.highest, "highest ballot")?,
            token: self.token,
        })
    }
}
