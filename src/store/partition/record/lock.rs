//! The record of a lock: its lease, or the delay after it, and its tombstones.
//!
//! A lock that is read has neither waiters nor an offer, which live in the memory of servers, and knows of no request
//! that ended: those have records of their own ([`super::ended`]), one for all locks of a batch.

use super::{
    LAYOUT, LAYOUT_OF_GHOSTS, LAYOUT_OF_MODES, RecordError,
    delay::{DelayMessage, delay_message, read_delay},
};
use crate::{
    domain::{
        binding::Binding,
        ids::{AttachmentId, Call, CallId, GrantId, LeaseId, ReplicaId, RequestId},
        lease::{Delays, Extra, Lease, MaxHold, Terms},
        mode::{Mode, PermitLimit, Permits},
        name::{Holder, Identity, Owner},
        rules::{Lock, Tombstone},
        time::{StoreTime, micros},
    },
    store::{
        content::Bytes,
        fields::{self, FieldError, Id},
    },
};
use std::{num::NonZeroU32, time::Duration};

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

/// Times and spans are in microseconds.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct LeaseMessage {
    #[prost(message, optional, tag = "1")]
    request: Option<Id>,
    #[prost(uint32, tag = "2")]
    attempt: u32,
    #[prost(fixed64, repeated, tag = "3")]
    calls: Vec<u64>,
    #[prost(message, optional, tag = "4")]
    replica: Option<Id>,
    #[prost(fixed64, tag = "5")]
    fingerprint: u64,
    #[prost(uint64, tag = "6")]
    ttl: u64,
    #[prost(string, tag = "7")]
    holder: String,
    /// Keys and values by turns.
    #[prost(string, repeated, tag = "8")]
    metadata: Vec<String>,
    #[prost(uint64, tag = "9")]
    min_token: u64,
    #[prost(message, optional, tag = "10")]
    lease_id: Option<Id>,
    #[prost(message, optional, tag = "11")]
    pub(super) grant_id: Option<Id>,
    #[prost(uint64, tag = "12")]
    pub(super) token: u64,
    #[prost(uint64, tag = "13")]
    granted_at: u64,
    #[prost(uint64, tag = "14")]
    pub(super) expires_at: u64,
    /// 0 if it is not known.
    #[prost(uint32, tag = "15")]
    previous_end: u32,
    #[prost(message, optional, tag = "16")]
    attachment: Option<Id>,
    #[prost(message, optional, tag = "17")]
    attachment_replica: Option<Id>,
    #[prost(uint32, tag = "18")]
    attachment_attempt: u32,
    #[prost(bool, tag = "19")]
    unheard: bool,
    #[prost(bool, tag = "20")]
    heard: bool,
    /// Of layout 2, as what follows. 0: exclusive.
    #[prost(uint32, tag = "21")]
    mode: u32,
    #[prost(uint32, tag = "22")]
    permits: u32,
    #[prost(uint32, tag = "23")]
    permit_limit: u32,
    #[prost(uint64, tag = "24")]
    permit_limit_version: u64,
    /// 0: none.
    #[prost(uint32, tag = "25")]
    slot: u32,
    #[prost(uint64, optional, tag = "26")]
    max_hold: Option<u64>,
    #[prost(uint64, tag = "27")]
    lock_delay: u64,
    #[prost(uint64, tag = "28")]
    min_hold: u64,
    #[prost(string, tag = "29")]
    owner: String,
    /// Also of layout 1: servers that do not know it pass it over.
    #[prost(string, tag = "30")]
    identity: String,
    #[prost(uint64, tag = "31")]
    description: u64,
    #[prost(bool, tag = "32")]
    tell_when_wanted: bool,
    /// Of layout 3: the lease has ended, and this is its ghost. Of what is above, a ghost has its grant id, its token
    /// and its mode.
    #[prost(message, optional, tag = "33")]
    pub(super) delay: Option<DelayMessage>,
    #[prost(uint32, tag = "34")]
    pub(super) handed_on: u32,
}

impl LockMessage {
    /// The layout that this is written in: a server that reads layout 1 alone would take what it does not know for not
    /// there.
    fn layout(&self) -> u8 {
        let is_plain =
            self.delay.is_none() && self.permit_limit == 0 && self.lease.as_ref().is_none_or(LeaseMessage::is_plain);
        if is_plain { LAYOUT } else { LAYOUT_OF_MODES }
    }
}

impl LeaseMessage {
    fn is_plain(&self) -> bool {
        let is_undescribed = self.owner.is_empty() && self.description == 0 && !self.tell_when_wanted;
        self.max_hold.is_none() && self.lock_delay == 0 && self.min_hold == 0 && self.mode == 0 && is_undescribed
    }

    /// The layout of a record of its own, as leases beside others have.
    pub(super) fn layout_of_share(&self) -> u8 {
        let is_without_delays = self.delay.is_none() && self.lock_delay == 0 && self.min_hold == 0;
        if is_without_delays { LAYOUT_OF_MODES } else { LAYOUT_OF_GHOSTS }
    }
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
    let message = LockMessage {
        lease: lock.lease().map(|lease| LeaseMessage { expires_at: expires_at.as_micros(), ..lease_message(lease) }),
        tombstones: lock.tombstones()[from..].iter().map(tombstone_message).collect(),
        delay: lock.delay().map(delay_message),
        permit_limit: limit.map_or(0, |limit| limit.permits),
        permit_limit_version: limit.map_or(0, |limit| limit.version),
    };
    Some(super::encode(message.layout(), &message))
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
    Ok(Some(super::encode(message.layout(), &message)))
}

pub(super) fn lease_message(lease: &Lease) -> LeaseMessage {
    // Names each field, so that a new one is not forgotten.
    let Lease {
        request,
        binding,
        terms: Terms { fingerprint, ttl, holder, metadata, min_token, max_hold, extra, mode },
        lease_id,
        grant_id,
        token,
        granted_at,
        expires_at,
        previous_end,
        attachment,
        attachment_replica,
        attachment_attempt,
        unheard,
        heard,
        told_wanted: _,
    } = lease;
    // What the request asked of its waiting is of no use any more.
    let Extra { delays, owner, identity, waiters_max: _, tell_when_wanted, description } =
        extra.as_deref().cloned().unwrap_or_default();
    LeaseMessage {
        request: Id::of(request.0),
        attempt: binding.attempt(),
        calls: binding.calls().iter().map(|call| call.0).collect(),
        replica: Id::unless_nil(binding.replica().0),
        fingerprint: *fingerprint,
        ttl: micros(*ttl),
        holder: holder.as_str().to_owned(),
        metadata: fields::texts(metadata),
        min_token: *min_token,
        lease_id: Id::of(lease_id.0),
        grant_id: Id::of(grant_id.0),
        token: token.get(),
        granted_at: granted_at.as_micros(),
        expires_at: expires_at.as_micros(),
        previous_end: previous_end.map_or(0, fields::end_number),
        attachment: attachment.and_then(|attachment| Id::of(attachment.0)),
        attachment_replica: Id::unless_nil(attachment_replica.0),
        attachment_attempt: *attachment_attempt,
        unheard: *unheard,
        heard: *heard,
        max_hold: max_hold.map(|max| micros(max.span())),
        lock_delay: delays.as_ref().map_or(0, |delays| micros(delays.lock_delay)),
        min_hold: delays.as_ref().map_or(0, |delays| micros(delays.min_hold)),
        owner: owner.into_string(),
        identity: identity.map_or_else(String::new, |identity| identity.as_str().to_owned()),
        description,
        tell_when_wanted,
        ..mode_message(mode)
    }
}

/// A message with this mode alone.
pub(super) fn mode_message(mode: &Mode) -> LeaseMessage {
    LeaseMessage {
        mode: mode_number(mode),
        permits: mode.permits().map_or(0, |permits| permits.count),
        permit_limit: mode.permits().map_or(0, |permits| permits.limit.permits),
        permit_limit_version: mode.permits().map_or(0, |permits| permits.limit.version),
        slot: mode.permits().and_then(|permits| permits.slot).map_or(0, NonZeroU32::get),
        ..LeaseMessage::default()
    }
}

pub(super) fn read_lease(message: LeaseMessage) -> Result<Lease, FieldError> {
    let mode = read_mode(&message)?;
    let extra = Extra {
        delays: Delays::new(Duration::from_micros(message.min_hold), Duration::from_micros(message.lock_delay)),
        owner: fields::checked("owner", Owner::new(message.owner))?,
        identity: (!message.identity.is_empty()).then(|| Identity::new(message.identity.into())),
        waiters_max: 0,
        tell_when_wanted: message.tell_when_wanted,
        description: message.description,
    };
    let extra = extra.boxed();
    let calls = message.calls.into_iter().map(CallId);
    let replica = ReplicaId(message.replica.map(Id::read).unwrap_or_default());
    let too_many = || FieldError::Broken("calls", "are too many".to_owned());
    Ok(Lease {
        request: RequestId(fields::id(message.request, "request id")?),
        binding: Binding::kept(message.attempt, calls, replica).ok_or_else(too_many)?,
        terms: Terms {
            fingerprint: message.fingerprint,
            ttl: Duration::from_micros(message.ttl),
            holder: fields::checked("holder", Holder::new(message.holder))?,
            metadata: fields::metadata(message.metadata)?,
            min_token: message.min_token,
            max_hold: message.max_hold.map(read_max_hold).transpose()?,
            mode,
            extra,
        },
        lease_id: LeaseId(fields::id(message.lease_id, "lease id")?),
        grant_id: GrantId(fields::id(message.grant_id, "grant id")?),
        token: fields::token(message.token)?,
        granted_at: StoreTime::from_micros(message.granted_at),
        expires_at: StoreTime::from_micros(message.expires_at),
        previous_end: fields::end_or_none(message.previous_end, "previous end")?,
        attachment: message.attachment.map(|id| AttachmentId(id.read())),
        attachment_replica: ReplicaId(message.attachment_replica.map(Id::read).unwrap_or_default()),
        attachment_attempt: message.attachment_attempt,
        unheard: message.unheard,
        heard: message.heard,
        told_wanted: false,
    })
}

const fn mode_number(mode: &Mode) -> u32 {
    match mode {
        Mode::Exclusive => 0,
        Mode::Shared => 1,
        Mode::Semaphore(_) => 2,
    }
}

pub(super) fn read_mode(message: &LeaseMessage) -> Result<Mode, FieldError> {
    match message.mode {
        0 => Ok(Mode::Exclusive),
        1 => Ok(Mode::Shared),
        2 => {
            let limit = PermitLimit { permits: message.permit_limit, version: message.permit_limit_version };
            let permits = Permits::new(message.permits, limit);
            let permits = permits.ok_or_else(|| FieldError::number("permits", message.permits))?;
            Ok(Mode::Semaphore(Box::new(Permits { slot: NonZeroU32::new(message.slot), ..permits })))
        }
        other => Err(FieldError::number("mode", other)),
    }
}

fn read_max_hold(micros: u64) -> Result<MaxHold, FieldError> {
    MaxHold::from_micros(micros).ok_or_else(|| FieldError::number("max_hold", micros))
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
