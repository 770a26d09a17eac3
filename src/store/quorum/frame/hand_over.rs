//! A planned change of the leader.

use super::{
    LAST_ENDS_MAX, LastEnds,
    wire::{self, BallotMessage},
};
use crate::{
    domain::time::StoreTime,
    store::{
        fields::{self, FieldError},
        quorum::ballot::Ballot,
    },
};

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct HandOverMessage {
    #[prost(uint32, tag = "1")]
    partition: u32,
    #[prost(message, optional, tag = "2")]
    ballot: Option<BallotMessage>,
    #[prost(message, optional, tag = "7")]
    ends: Option<LastEndsMessage>,
}

/// As many tokens as ends, of eight bytes each, so that the largest message is known.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct LastEndsMessage {
    #[prost(uint64, tag = "1")]
    seq: u64,
    #[prost(fixed64, repeated, tag = "2")]
    tokens: Vec<u64>,
    /// In microseconds.
    #[prost(fixed64, repeated, tag = "3")]
    ends: Vec<u64>,
}

const _: () = assert!(2 * 8 * LAST_ENDS_MAX + 1024 <= super::MESSAGE_BYTES_MAX, "they are sent in one message");

impl HandOverMessage {
    pub(super) fn of(partition: u16, ballot: Ballot, ends: Option<LastEnds>) -> Self {
        let ends = ends.map(|LastEnds { seq, ends }| {
            let (tokens, ends) = ends.into_iter().map(|(token, end)| (token.get(), end.as_micros())).unzip();
            LastEndsMessage { seq, tokens, ends }
        });
        Self { partition: partition.into(), ballot: Some(ballot.into()), ends }
    }

    pub(super) fn read(self) -> Result<(u16, Ballot, Option<LastEnds>), FieldError> {
        let ballot = wire::ballot(self.ballot, "ballot")?;
        Ok((wire::partition(self.partition)?, ballot, self.ends.map(LastEndsMessage::read).transpose()?))
    }
}

impl LastEndsMessage {
    fn read(self) -> Result<LastEnds, FieldError> {
        let Self { seq, tokens, ends } = self;
        if tokens.len() != ends.len() {
            let why = format!("are {}, of {} leases", ends.len(), tokens.len());
            return Err(FieldError::Broken("ends of leases", why));
        }
        let ends =
            tokens.into_iter().zip(ends).map(|(token, end)| Ok((fields::token(token)?, StoreTime::from_micros(end))));
        Ok(LastEnds { seq, ends: ends.collect::<Result<_, FieldError>>()? })
    }
}
