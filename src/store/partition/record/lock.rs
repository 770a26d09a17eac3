//! The record of a lock: its lease, or the delay after it, and its tombstones.
//!
//! A lock that is read has neither waiters nor an offer, which live in the memory of servers, and knows of no request
//! that ended: those have records of their own ([`super::ended`]), one for all locks of a batch.

use super::{
    LAYOUT, LAYOUT_OF_GHOSTS, LAYOUT_OF_MODES, RecordError,
    delay::{DelayMessage, delay_message, read_delay},
    lease::{LeaseMessage, is_plain, read_lease, write_lease},
};
use crate::{
    domain::{
        ids::{Call, CallId, RequestId},
        mode::PermitLimit,
        rules::{Lock, Tombstone},
        time::StoreTime,
    },
    store::{
        content::Bytes,
        fields::{self, FieldError, Id},
    },
};

/// Tombstones that a record holds: the newest. One that is left out is not missed, because a command is addressed to
/// one leader, and the next one does not carry it out.
pub const TOMBSTONES_MAX: usize = 256;

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct LockMessage {
    #[prost(message, optional, tag = "1")]
    lease: Option<LeaseMessage>,
    #[prost(message, repeated, tag = "2")]
    tombstones: Vec<TombstoneMessage>,
    /// Of layout 2.
    #[prost(message, optional, tag = "3")]
    delay: Option<DelayMessage>,
    /// The limit of a semaphore, if no lease tells it. Servers that know no semaphores do not read the leases.
    #[prost(uint32, tag = "4")]
    permit_limit: u32,
    #[prost(uint64, tag = "5")]
    permit_limit_version: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct TombstoneMessage {
    #[prost(message, optional, tag = "1")]
    request: Option<Id>,
    #[prost(uint32, tag = "2")]
    attempt: u32,
    #[prost(fixed64, tag = "3")]
    call: u64,
    #[prost(uint64, tag = "4")]
    until: u64,
}

/// The record of a lock whose lease ends at `expires_at`. None if there is nothing to keep.
pub fn encode(lock: &Lock, expires_at: StoreTime) -> Option<Bytes> {
    let limit = lock.permit_limit_to_keep();
    if lock.lease().is_none() && lock.tombstones().is_empty() && lock.delay().is_none() && limit.is_none() {
        return None;
    }
    let from = lock.tombstones().len().saturating_sub(TOMBSTONES_MAX);
    let is_plain = lock.lease().is_none_or(is_plain) && lock.delay().is_none() && limit.is_none();
    Some(super::written(if is_plain { LAYOUT } else { LAYOUT_OF_MODES }, |it| {
        if let Some(lease) = lock.lease() {
            it.nested(1, |it| write_lease(it, lease, expires_at));
        }
        lock.tombstones()[from..].iter().for_each(|tombstone| it.message(2, &tombstone_message(tombstone)));
        if let Some(delay) = lock.delay() {
            it.message(3, &delay_message(delay));
        }
        if let Some(PermitLimit { permits, version }) = limit {
            it.number(4, permits);
            it.number(5, version);
        }
    }))
}

/// Reads the record of a lock. What the lock lacks is said above.
pub fn decode(record: &[u8]) -> Result<Lock, RecordError> {
    let LockMessage { lease, tombstones, delay, permit_limit, permit_limit_version } =
        super::decode(record, LAYOUT_OF_GHOSTS)?;
    let limit = PermitLimit { permits: permit_limit, version: permit_limit_version };
    let limit = (permit_limit != 0).then_some(limit);
    if lease.is_none() && tombstones.is_empty() && delay.is_none() && limit.is_none() {
        return Err(FieldError::Missing("lease").into());
    }
    if lease.is_some() && delay.is_some() {
        return Err(FieldError::Broken("delay", "stands beside a lease".to_owned()).into());
    }
    if limit.is_some() && (lease.is_some() || delay.is_some()) {
        return Err(FieldError::Broken("permit limit", "stands beside a lease or a delay".to_owned()).into());
    }
    if tombstones.len() > TOMBSTONES_MAX {
        return Err(FieldError::Broken("tombstones", format!("are {}: too many", tombstones.len())).into());
    }
    let lease = lease.map(read_lease).transpose()?;
    let lock = Lock::kept(lease, tombstones.iter().map(read_tombstone).collect::<Result<_, _>>()?);
    let mut lock = match delay {
        Some(delay) => lock.delayed(read_delay(delay)?),
        None => lock,
    };
    if let Some(limit) = limit {
        lock.keep_permit_limit(limit);
    }
    Ok(lock)
}

/// The same record with another token, if there is a lease or a delay after one. `None`: there is no such token.
pub fn with_token(record: &Bytes, token: impl Fn(u64) -> Option<u64>) -> Result<Option<Bytes>, RecordError> {
    let mut message: LockMessage = super::decode(record, LAYOUT_OF_GHOSTS)?;
    let of_delay = message.delay.as_mut().map(|delay| &mut delay.token);
    let Some(known) = message.lease.as_mut().map(|lease| &mut lease.token).or(of_delay) else {
        return Ok(Some(record.clone()));
    };
    let Some(token) = token(*known) else { return Ok(None) };
    *known = token;
    Ok(Some(super::encoded_like(record, &message)))
}

fn tombstone_message(tombstone: &Tombstone) -> TombstoneMessage {
    let Tombstone { call: Call { request, attempt, id }, until } = tombstone;
    TombstoneMessage { request: Id::of(request.0), attempt: *attempt, call: id.0, until: until.as_micros() }
}

fn read_tombstone(message: &TombstoneMessage) -> Result<Tombstone, FieldError> {
    let request = RequestId(fields::id(message.request, "request id")?);
    let call = Call { request, attempt: message.attempt, id: CallId(message.call) };
    Ok(Tombstone { call, until: StoreTime::from_micros(message.until) })
}
