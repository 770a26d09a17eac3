//! Ballots, positions and ids: the numbers by which the protocol orders events.

use minicbor::{Decode, Encode};
use std::fmt;

/// One run of one server process. Drawn at random at its start: 96 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
#[cbor(transparent)]
pub struct ServerId(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 12]);

impl ServerId {
    /// The id that `Display` wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 24)?;
        number.to_be_bytes().last_chunk().map(|id| Self(*id))
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// One server's attempt to lead a partition. No two attempts have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct Ballot {
    /// One more than the highest round that the server had seen.
    #[n(0)]
    pub round: u64,
    /// The server that attempts it.
    #[n(1)]
    pub server: ServerId,
}

/// Names one lead: that of this partition by this ballot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadId {
    /// The partition.
    pub partition: u16,
    /// The leader's ballot.
    pub ballot: Ballot,
}

/// Where a batch stands in the partition's history: its leader's ballot, then the leader's count of batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The ballot of the leader that wrote the batch.
    pub ballot: Ballot,
    /// 1 for the first batch of a leader.
    pub seq: u64,
}

/// Names one membership of a node in a partition, from its admission until it loses its memory. Random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
#[cbor(transparent)]
pub struct Stamp(#[cbor(n(0), with = "stamp")] pub u128);

/// As 16 bytes.
mod stamp {
    use minicbor::{
        Decoder, Encoder,
        bytes::{DecodeBytes as _, EncodeBytes as _},
        decode::Error,
        encode::{self, Write},
    };

    pub(crate) fn encode<C, W: Write>(
        stamp: &u128,
        to: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        stamp.to_be_bytes().encode_bytes(to, context)
    }

    pub(crate) fn decode<C>(from: &mut Decoder<'_>, context: &mut C) -> Result<u128, Error> {
        <[u8; 16]>::decode_bytes(from, context).map(u128::from_be_bytes)
    }
}

/// Names one transfer of a snapshot to a node. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransferId(pub u128);

/// The number of nodes that is more than half of them.
pub fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}
