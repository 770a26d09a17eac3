//! A record of ended requests: all that ended before one batch, of whatever locks. So a lock that is taken and given
//! back costs a share of one record, which is written once and removed once.

use super::{LAYOUT, RecordError};
use crate::{
    domain::{
        ended::{Ended, EndedLease, RequestEnd},
        ids::{LeaseId, RequestId},
        name::LockName,
        time::StoreTime,
        token::FencingToken,
    },
    store::{
        content::Bytes,
        fields::{self, FieldError, Id, Wire},
    },
};

/// A record of this size gets no further entry: the next one begins another record. Well below
/// [`super::RECORD_BYTES_MAX`], with room for the entry that reaches it.
pub const FULL_FROM_BYTES: usize = 32 * 1024;

/// A request that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The lock.
    pub name: LockName,
    /// The request.
    pub ended: Ended,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct RecordMessage {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<EntryMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct EntryMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    request: Option<Id>,
    #[prost(fixed64, tag = "3")]
    fingerprint: u64,
    /// In microseconds.
    #[prost(uint64, tag = "4")]
    at: u64,
    /// 1 to 3: the end of a lease; 4 to 6: the constants below.
    #[prost(uint32, tag = "5")]
    end: u32,
    #[prost(message, optional, tag = "6")]
    lease_id: Option<Id>,
    /// The token of the lease, 0 if it is not known; or the attempt that was refused.
    #[prost(uint64, tag = "7")]
    number: u64,
    /// What the next holder hears, if that is not the end of this lease. Servers that know no shared leases, of which
    /// this is, skip it.
    #[prost(uint32, tag = "8")]
    handed_on: u32,
}

const TIMED_OUT: u32 = 4;
const ABANDONED: u32 = 5;
const REFUSED: u32 = 6;

/// Adds a request that ended to a record, which begins as an empty one.
pub fn append(record: &mut Vec<u8>, name: &LockName, ended: &Ended) {
    let Ended { request, fingerprint, end, at } = ended;
    let mut handed_on = 0;
    let (end, lease_id, number) = match *end {
        RequestEnd::Lease(lease) => {
            if lease.handed_on != lease.end {
                handed_on = fields::end_number(lease.handed_on);
            }
            (fields::end_number(lease.end), Some(lease.lease_id), lease.token.map_or(0, FencingToken::get))
        }
        RequestEnd::TimedOut => (TIMED_OUT, None, 0),
        RequestEnd::Abandoned => (ABANDONED, None, 0),
        RequestEnd::Refused(attempt) => (REFUSED, None, attempt.into()),
    };
    if record.is_empty() {
        record.push(LAYOUT);
    }
    // Messages one after the other are one message with the entries of all.
    Wire(record).nested(1, |it| {
        it.text(1, name.as_str());
        it.id(2, request.0);
        it.fixed(3, *fingerprint);
        it.number(4, at.as_micros());
        it.number(5, end);
        if let Some(lease_id) = lease_id {
            it.id(6, lease_id.0);
        }
        it.number(7, number);
        it.number(8, handed_on);
    });
}

/// Reads a record: what ended first comes first.
pub fn decode(record: &[u8]) -> Result<Vec<Entry>, RecordError> {
    let RecordMessage { entries } = super::decode(record, LAYOUT)?;
    entries.into_iter().map(read).collect()
}

/// The same record with other tokens of leases. `None`: there are no such tokens.
pub fn with_tokens(record: &Bytes, token: impl Fn(u64) -> Option<u64>) -> Result<Option<Bytes>, RecordError> {
    let mut message: RecordMessage = super::decode(record, LAYOUT)?;
    let is_of_lease = |entry: &&mut EntryMessage| entry.number > 0 && fields::end_numbered(entry.end).is_some();
    for entry in message.entries.iter_mut().filter(is_of_lease) {
        let Some(token) = token(entry.number) else { return Ok(None) };
        entry.number = token;
    }
    Ok(Some(super::encoded_like(record, &message)))
}

fn read(message: EntryMessage) -> Result<Entry, RecordError> {
    let lease_id = || fields::id(message.lease_id, "lease id").map(LeaseId);
    let end = match (message.end, fields::end_numbered(message.end)) {
        (_, Some(end)) => RequestEnd::Lease(EndedLease {
            lease_id: lease_id()?,
            token: fields::token_or_none(message.number)?,
            end,
            handed_on: fields::end_or_none(message.handed_on, "end that was handed on")?.unwrap_or(end),
        }),
        (TIMED_OUT, _) => RequestEnd::TimedOut,
        (ABANDONED, _) => RequestEnd::Abandoned,
        (REFUSED, _) => RequestEnd::Refused(
            message.number.try_into().map_err(|_| FieldError::Broken("attempt", "is too large".to_owned()))?,
        ),
        (number, None) => return Err(FieldError::number("end", number).into()),
    };
    let ended = Ended {
        request: RequestId(fields::id(message.request, "request id")?),
        fingerprint: message.fingerprint,
        end,
        at: StoreTime::from_micros(message.at),
    };
    Ok(Entry { name: fields::checked("lock name", LockName::new(message.name))?, ended })
}
