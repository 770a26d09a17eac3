//! The keys and records of a partition, as its nodes keep them.
//!
//! A record is the number of its layout, in one byte, and a protobuf message. The messages are private to servers:
//! what nodes keep can be read by the next version of the server, and by nobody else. Nobody could take a message of
//! another layout for one of this, and fields are known by their numbers, so what is not there takes no room.
//!
//! Two servers of one version make the same bytes of the same lock: a snapshot is equal to the batches that led to it.

mod delay;
pub mod ended;
mod lease;
pub mod lock;
pub mod share;
#[cfg(test)]
mod tests;

use crate::{
    domain::{ids::GrantId, name::LockName},
    store::{
        content::Bytes,
        fields::{self, FieldError, Wire},
    },
};
use prost::Message;
use smallvec::SmallVec;
use uuid::Uuid;

/// The layout of plain records. Each server reads it.
pub const LAYOUT: u8 = 1;
/// The layout of records with a field that servers of layout 1 do not know, and must not pass over: they would hold a
/// lease without its bounds. Such a server refuses the record, and does not lead its partition.
pub const LAYOUT_OF_MODES: u8 = 2;
/// The layout of records of leases beside others with delays, and of their ghosts: servers of layout 2 would take a
/// ghost for a lease, and forget the delays of a lease.
pub const LAYOUT_OF_GHOSTS: u8 = 3;

/// A record has at most so many bytes. The largest that a server writes, of a lock with all the metadata that there can
/// be and with [`lock::TOMBSTONES_MAX`], has about a third of it.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;

/// More than most records have.
const USUAL_BYTES: usize = 512;
/// As much as most keys have, or more.
const USUAL_KEY_BYTES: usize = 128;

const LOCK: u8 = b'l';
const ENDED: u8 = b'e';
const SHARE: u8 = b'h';
/// Between the name of a lock and the grant id of a shared lease. No name contains it.
const END_OF_NAME: u8 = 0;

/// What a record is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// A lock.
    Lock(LockName),
    /// A lease of a lock beside others, or its ghost.
    Share(LockName, GrantId),
    /// The requests that ended before one batch. Numbers rise from batch to batch, over all leaders.
    Ended(u64),
}

impl Key {
    /// The key of a lock's record.
    pub fn of_lock(name: &LockName) -> Bytes {
        key([&[LOCK], name.as_str().as_bytes()])
    }

    /// The key of a shared lease's record. The grant id, because a token may be changed ([`with_tokens`]).
    pub fn of_share(name: &LockName, grant_id: GrantId) -> Bytes {
        key([&[SHARE], name.as_str().as_bytes(), &[END_OF_NAME], grant_id.0.as_bytes()])
    }

    /// The key of a record of ended requests.
    pub fn of_ended(number: u64) -> Bytes {
        let mut key = [ENDED; 9];
        key[1..].copy_from_slice(&number.to_be_bytes());
        Bytes::from(key)
    }

    /// Reads a key.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        match bytes.split_first() {
            Some((&LOCK, name)) => Ok(Self::Lock(read_name(name)?)),
            Some((&SHARE, rest)) => {
                let (name, grant_id) = rest.split_last_chunk::<16>().ok_or(RecordError::UnknownKey)?;
                let name = name.strip_suffix(&[END_OF_NAME]).ok_or(RecordError::UnknownKey)?;
                let grant_id = GrantId(Uuid::from_bytes(*grant_id));
                Ok(Self::Share(read_name(name)?, grant_id))
            }
            Some((&ENDED, number)) => {
                let number = number.try_into().map_err(|_| RecordError::UnknownKey)?;
                Ok(Self::Ended(u64::from_be_bytes(number)))
            }
            _ => Err(RecordError::UnknownKey),
        }
    }
}

/// A key of these parts.
fn key<const N: usize>(parts: [&[u8]; N]) -> Bytes {
    let mut key = SmallVec::<[u8; USUAL_KEY_BYTES]>::new();
    parts.iter().for_each(|part| key.extend_from_slice(part));
    Bytes::from(&*key)
}

fn read_name(name: &[u8]) -> Result<LockName, RecordError> {
    let name = String::from_utf8(name.to_vec()).map_err(|_| RecordError::UnknownKey)?;
    Ok(fields::checked("lock name", LockName::new(name))?)
}

/// Why a record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The key is of no known kind.
    #[error("this version of the server writes no such key")]
    UnknownKey,
    /// Nothing is there.
    #[error("it is empty")]
    Empty,
    /// It is longer than any record.
    #[error("it has {0} bytes, and a record has at most {RECORD_BYTES_MAX}")]
    TooLong(usize),
    /// Another version of the server wrote it.
    #[error(
        "it has layout {0}, and this server reads layouts {LAYOUT} to {LAYOUT_OF_GHOSTS}: another version of the \
         server wrote it. Start that version, or a later one that still reads it"
    )]
    OtherLayout(u8),
    /// It is no message.
    #[error("it is damaged: {0}")]
    Damaged(#[from] prost::DecodeError),
    /// A field of it is not as it always is.
    #[error(transparent)]
    Field(#[from] FieldError),
}

/// The same record with other tokens of leases. `None`: there are no such tokens.
pub fn with_tokens(
    key: &Bytes,
    record: &Bytes,
    token: impl Fn(u64) -> Option<u64>,
) -> Result<Option<Bytes>, RecordError> {
    match key.first() {
        Some(&LOCK) => lock::with_token(record, token),
        Some(&SHARE) => share::with_token(record, token),
        Some(&ENDED) => ended::with_tokens(record, token),
        _ => Err(RecordError::UnknownKey),
    }
}

/// A record whose message `write` writes.
fn written(layout: u8, write: impl FnOnce(&mut Wire<'_>)) -> Bytes {
    // Its length is not computed: that takes about as long as to write it.
    let mut record = Vec::with_capacity(USUAL_BYTES);
    record.push(layout);
    write(&mut Wire(&mut record));
    record.into()
}

/// A record of this message, which was read from another record and has as much in it: the layout is the same.
fn encoded_like(record: &[u8], message: &impl Message) -> Bytes {
    let mut encoded = record[..1].to_vec();
    message.encode(&mut encoded).unwrap_or_else(|_| unreachable!("a Vec grows"));
    encoded.into()
}

/// The message of a record of layout 1, or of a later one up to `newest`: fields are known by their numbers, so each
/// layout is read like the newest.
fn decode<M: Message + Default>(record: &[u8], newest: u8) -> Result<M, RecordError> {
    if record.len() > RECORD_BYTES_MAX {
        return Err(RecordError::TooLong(record.len()));
    }
    match record.split_first() {
        None => Err(RecordError::Empty),
        Some((layout, message)) if (LAYOUT..=newest).contains(layout) => Ok(M::decode(message)?),
        Some((layout, _)) => Err(RecordError::OtherLayout(*layout)),
    }
}
