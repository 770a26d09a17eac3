//! What a leader is asked for.

use super::{
    Frame, Work,
    command::RunMessage,
    wire::{self, BallotMessage},
};
use crate::{
    domain::{limits::LOCK_NAME_BYTES_MAX, time::StoreTime},
    store::{
        fields::{self, FieldError},
        quorum::ballot::Ballot,
    },
};

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct AskMessage {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(uint32, tag = "2")]
    partition: u32,
    #[prost(message, optional, tag = "3")]
    ballot: Option<BallotMessage>,
    /// In microseconds.
    #[prost(uint64, tag = "4")]
    not_after: u64,
    #[prost(oneof = "Kind", tags = "5, 6, 7")]
    work: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
#[prost(skip_debug)]
enum Kind {
    #[prost(message, tag = "5")]
    Run(RunMessage),
    #[prost(message, tag = "6")]
    List(ListMessage),
    #[prost(message, tag = "7")]
    Watch(WatchMessage),
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct ListMessage {
    #[prost(string, tag = "1")]
    prefix: String,
    #[prost(uint64, tag = "2")]
    slot: u64,
    #[prost(uint32, tag = "3")]
    limit: u32,
    #[prost(uint32, tag = "4")]
    budget: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct WatchMessage {
    /// The number of a beat.
    #[prost(uint64, tag = "1")]
    beat: u64,
}

impl AskMessage {
    pub(super) fn of(number: u64, partition: u16, ballot: Ballot, not_after: StoreTime, work: Work) -> Self {
        let work = match work {
            Work::Run(name, command) => Kind::Run(RunMessage::of(name, command)),
            Work::List { prefix, slot, limit, budget } => Kind::List(ListMessage { prefix, slot, limit, budget }),
            Work::Watch(beat) => Kind::Watch(WatchMessage { beat }),
        };
        Self {
            number,
            partition: partition.into(),
            ballot: Some(ballot.into()),
            not_after: not_after.as_micros(),
            work: Some(work),
        }
    }

    pub(super) fn read(self) -> Result<Frame, FieldError> {
        let work = match fields::part(self.work, "work")? {
            Kind::Run(message) => {
                let (name, command) = message.read()?;
                Work::Run(name, command)
            }
            Kind::List(ListMessage { prefix, .. }) if prefix.len() > LOCK_NAME_BYTES_MAX => {
                return Err(FieldError::Broken("prefix", format!("has {} bytes: too many", prefix.len())));
            }
            Kind::List(ListMessage { prefix, slot, limit, budget }) => Work::List { prefix, slot, limit, budget },
            Kind::Watch(WatchMessage { beat }) => Work::Watch(beat),
        };
        Ok(Frame::Ask {
            number: self.number,
            partition: wire::partition(self.partition)?,
            ballot: wire::ballot(self.ballot, "ballot")?,
            not_after: StoreTime::from_micros(self.not_after),
            work,
        })
    }
}
