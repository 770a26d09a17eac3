//! What is compared, as bytes of a fixed length: ids of 16, numbers of 6 (the highest byte first), ballots of 18
//! (round, server), batches of 24 (ballot, number). Equal bytes are equal values, so scripts need to unpack them only
//! where the order counts.

use crate::{
    domain::limits::TOKEN_END,
    node::{Arg, NodeError},
    store::quorum::paxos::{
        acceptor::Seen,
        ballot::{Ballot, Position, ServerId, Stamp},
        node::{ClusterId, Mark},
    },
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Bytes of a number.
const NUMBER_BYTES: usize = 6;
/// A header with its time has no more bytes.
const HEADER_BYTES_MAX: usize = 80;
/// Bytes of an incarnation: a run id and a replication id.
const LIFE_BYTES: usize = 80;

/// What servers alone read of a mark.
#[derive(Deserialize, Serialize)]
struct Members {
    partitions: u16,
    members: Vec<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rebuild: Option<u64>,
}

/// Fields, one after the other.
#[derive(Default)]
pub(super) struct Fields(Vec<u8>);

impl Fields {
    pub(super) fn id(mut self, id: u128) -> Self {
        self.0.extend_from_slice(&id.to_be_bytes());
        self
    }

    /// A round, the number of a batch or of a list.
    pub(super) fn number(mut self, number: u64) -> Result<Self, NodeError> {
        let bytes = number.to_be_bytes();
        let (above, kept) = bytes.split_at(bytes.len() - NUMBER_BYTES);
        if above.iter().any(|byte| *byte != 0) {
            return Err(beyond(number));
        }
        self.0.extend_from_slice(kept);
        Ok(self)
    }

    pub(super) fn ballot(self, ballot: &Ballot) -> Result<Self, NodeError> {
        let mut fields = self.number(ballot.round)?;
        fields.0.extend_from_slice(&ballot.server.0);
        Ok(fields)
    }

    pub(super) fn position(self, position: &Position) -> Result<Self, NodeError> {
        self.ballot(&position.ballot)?.number(position.seq)
    }

    /// A header without its time: the membership, what it has promised, the last batch.
    pub(super) fn header(stamp: Stamp, promised: &Ballot, accepted: &Position) -> Result<Self, NodeError> {
        Self(Vec::with_capacity(HEADER_BYTES_MAX)).id(stamp.0).ballot(promised)?.position(accepted)
    }

    /// A time, as text.
    pub(super) fn time(mut self, time: u64) -> Result<Self, NodeError> {
        self.0.extend_from_slice(decimal(time)?.to_string().as_bytes());
        Ok(self)
    }

    pub(super) fn arg(self) -> Arg {
        Arg::from(self.0)
    }
}

/// A time or a token. Lua's numbers are exact below this.
pub(super) fn decimal(number: u64) -> Result<u64, NodeError> {
    if number < TOKEN_END { Ok(number) } else { Err(beyond(number)) }
}

fn beyond(number: u64) -> NodeError {
    NodeError::Corrupt(format!("{number} is higher than any number that a node keeps, so something before it is wrong"))
}

pub(super) fn mark(mark: &Mark) -> Result<Arg, NodeError> {
    let members = mark.members.iter().map(|member| Box::from(&**member)).collect();
    let members = serde_json::to_vec(&Members { partitions: mark.partitions, members, rebuild: mark.rebuild });
    let mut fields = Fields::default().id(mark.cluster.0).number(mark.list)?;
    fields.0.extend_from_slice(&members.map_err(|error| NodeError::Corrupt(error.to_string()))?);
    Ok(fields.arg())
}

/// Takes fields from the front of bytes that a node answered. `None`: they are too short, or otherwise strange.
pub(super) struct Taken<'a>(pub(super) &'a [u8]);

impl Taken<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn id(&mut self) -> Option<u128> {
        self.bytes().map(u128::from_be_bytes)
    }

    fn number(&mut self) -> Option<u64> {
        let bytes = self.bytes::<NUMBER_BYTES>()?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn take_ballot(&mut self) -> Option<Ballot> {
        Some(Ballot { round: self.number()?, server: ServerId(self.bytes()?) })
    }

    /// What a partition's header says of a node that votes there.
    pub(super) fn votes(mut self) -> Option<Seen> {
        self.bytes::<LIFE_BYTES>()?;
        self.id()?;
        let promised = self.take_ballot()?;
        let accepted = Position { ballot: self.take_ballot()?, seq: self.number()? };
        Some(Seen::Votes { promised, accepted })
    }

    pub(super) fn server(mut self) -> Option<ServerId> {
        self.bytes().and_then(|id| self.end(ServerId(id)))
    }

    fn end<T>(&self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }

    pub(super) fn stamp(mut self) -> Option<Stamp> {
        self.id().and_then(|id| self.end(Stamp(id)))
    }

    pub(super) fn cluster(mut self) -> Option<ClusterId> {
        self.id().and_then(|id| self.end(ClusterId(id)))
    }

    pub(super) fn ballot(mut self) -> Option<Ballot> {
        self.take_ballot().and_then(|ballot| self.end(ballot))
    }

    pub(super) fn position(mut self) -> Option<Position> {
        let (ballot, seq) = (self.take_ballot()?, self.number()?);
        self.end(Position { ballot, seq })
    }

    pub(super) fn mark(mut self) -> Option<Mark> {
        let (cluster, list) = (ClusterId(self.id()?), self.number()?);
        let Members { partitions, members, rebuild } = serde_json::from_slice(self.0).ok()?;
        let members = members.into_iter().map(Arc::from).collect();
        Some(Mark { cluster, partitions, list, members, rebuild })
    }

    /// A time or a token.
    pub(super) fn decimal(self) -> Option<u64> {
        std::str::from_utf8(self.0).ok()?.parse().ok()
    }
}
