//! A lease in a record: of a lock, or of its own where leases stand beside others.

use super::delay::DelayMessage;
use crate::{
    domain::{
        binding::Binding,
        ids::{AttachmentId, CallId, GrantId, LeaseId, ReplicaId, RequestId},
        lease::{Delays, Extra, Lease, MaxHold, Terms},
        mode::{Mode, PermitLimit, Permits},
        name::{Holder, Identity, Owner},
        time::{StoreTime, micros},
    },
    store::fields::{self, FieldError, Id, Wire},
};
use std::{num::NonZeroU32, time::Duration};

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

/// Whether servers of layout 1 know all that the lease of a lock has, but for the identity, which they may pass over.
pub(super) fn is_plain(lease: &Lease) -> bool {
    // Names each field, so that a new one is not forgotten.
    let Terms { fingerprint: _, ttl: _, holder: _, metadata: _, min_token: _, max_hold, extra, mode } = &lease.terms;
    let is_known = |extra: &Extra| {
        let Extra { delays, owner, identity: _, waiters_max: _, tell_when_wanted, description } = extra;
        delays.is_none() && owner.is_empty() && *description == 0 && !tell_when_wanted
    };
    max_hold.is_none() && *mode == Mode::Exclusive && extra.as_deref().is_none_or(is_known)
}

/// Writes a lease that ends at `expires_at`, as a [`LeaseMessage`].
pub(super) fn write_lease(it: &mut Wire<'_>, lease: &Lease, expires_at: StoreTime) {
    // Names each field, so that a new one is not forgotten.
    let Lease {
        request,
        binding,
        terms: Terms { fingerprint, ttl, holder, metadata, min_token, max_hold, extra, mode },
        lease_id,
        grant_id,
        token,
        granted_at,
        expires_at: _,
        previous_end,
        attachment,
        attachment_replica,
        attachment_attempt,
        unheard,
        heard,
        told_wanted: _,
    } = lease;
    it.id(1, request.0);
    it.number(2, binding.attempt());
    it.packed(3, binding.calls().iter().map(|call| call.0));
    it.id_unless_nil(4, binding.replica().0);
    it.fixed(5, *fingerprint);
    it.number(6, micros(*ttl));
    it.text(7, holder.as_str());
    for (key, value) in metadata.pairs() {
        it.item(8, key);
        it.item(8, value);
    }
    it.number(9, *min_token);
    it.id(10, lease_id.0);
    it.id(11, grant_id.0);
    it.number(12, token.get());
    it.number(13, granted_at.as_micros());
    it.number(14, expires_at.as_micros());
    it.number(15, previous_end.map_or(0, fields::end_number));
    if let Some(attachment) = attachment {
        it.id(16, attachment.0);
    }
    it.id_unless_nil(17, attachment_replica.0);
    it.number(18, *attachment_attempt);
    it.number(19, *unheard);
    it.number(20, *heard);
    write_mode(it, mode);
    if let Some(max) = max_hold {
        it.present(26, micros(max.span()));
    }
    if let Some(extra) = extra {
        write_extra(it, extra);
    }
}

fn write_extra(it: &mut Wire<'_>, extra: &Extra) {
    // What the request asked of its waiting is of no use any more.
    let Extra { delays, owner, identity, waiters_max: _, tell_when_wanted, description } = extra;
    if let Some(Delays { min_hold, lock_delay }) = delays {
        it.number(27, micros(*lock_delay));
        it.number(28, micros(*min_hold));
    }
    it.text(29, owner.as_str());
    if let Some(identity) = identity {
        it.text(30, identity.as_str());
    }
    it.number(31, *description);
    it.number(32, *tell_when_wanted);
}

/// Writes a mode, as a [`LeaseMessage`] that has nothing else.
pub(super) fn write_mode(it: &mut Wire<'_>, mode: &Mode) {
    it.number(21, mode_number(mode));
    if let Some(Permits { count, limit: PermitLimit { permits, version }, slot }) = mode.permits() {
        it.number(22, *count);
        it.number(23, *permits);
        it.number(24, *version);
        it.number(25, slot.map_or(0, NonZeroU32::get));
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
