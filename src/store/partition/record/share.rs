//! The record of a lease beside others, or of its ghost.

use super::{
    LAYOUT_OF_GHOSTS, LAYOUT_OF_MODES, RecordError,
    delay::{DelayMessage, delay_message, read_delay},
    lease::{LeaseMessage, read_lease, read_mode, write_lease, write_mode},
};
use crate::{
    domain::{ids::GrantId, lease::Lease, rules::Ghost, time::StoreTime},
    store::{
        content::Bytes,
        fields::{self, FieldError},
    },
};

/// What the record of a lease beside others holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// The lease.
    Lease(Lease),
    /// What stays of it.
    Ghost(Ghost),
}

/// The record of a shared lease that ends at `expires_at`. Servers that know no shared leases refuse its key.
pub fn encode(lease: &Lease, expires_at: StoreTime) -> Bytes {
    let has_delays = lease.terms.extra.as_ref().is_some_and(|extra| extra.delays.is_some());
    let layout = if has_delays { LAYOUT_OF_GHOSTS } else { LAYOUT_OF_MODES };
    super::written(layout, |it| write_lease(it, lease, expires_at))
}

/// The record of a ghost, under the key of its lease.
pub fn encode_ghost(ghost: &Ghost) -> Bytes {
    let Ghost { delay, grant_id, mode } = ghost;
    super::written(LAYOUT_OF_GHOSTS, |it| {
        it.id(11, grant_id.0);
        it.number(12, delay.token.get());
        write_mode(it, mode);
        it.message(33, &delay_message(delay));
        it.number(34, delay.lease().map_or(0, |lease| fields::end_number(lease.handed_on)));
    })
}

/// Reads the record of the lease beside others with this grant id, or of its ghost.
pub fn decode(record: &[u8], grant_id: GrantId) -> Result<Share, RecordError> {
    let mut message: LeaseMessage = super::decode(record, LAYOUT_OF_GHOSTS)?;
    let (share, of) = match message.delay.take() {
        Some(delay) => {
            let ghost = read_ghost(&message, delay)?;
            let grant_id = ghost.grant_id;
            (Share::Ghost(ghost), grant_id)
        }
        None => {
            let lease = read_lease(message)?;
            let grant_id = lease.grant_id;
            (Share::Lease(lease), grant_id)
        }
    };
    if of != grant_id {
        return Err(FieldError::Broken("grant id", "is not that of the key".to_owned()).into());
    }
    Ok(share)
}

/// The same record of a lease beside others, or of its ghost, with another token. `None`: there is no such token.
pub fn with_token(record: &Bytes, token: impl Fn(u64) -> Option<u64>) -> Result<Option<Bytes>, RecordError> {
    let mut message: LeaseMessage = super::decode(record, LAYOUT_OF_GHOSTS)?;
    let Some(token) = token(message.token) else { return Ok(None) };
    message.token = token;
    if let Some(delay) = &mut message.delay {
        delay.token = token;
    }
    Ok(Some(super::encoded_like(record, &message)))
}

fn read_ghost(message: &LeaseMessage, delay: DelayMessage) -> Result<Ghost, FieldError> {
    let handed_on = fields::end_numbered(message.handed_on);
    let handed_on = handed_on.ok_or_else(|| FieldError::number("handed on", message.handed_on))?;
    Ok(Ghost {
        delay: read_delay(delay)?.handing_on(handed_on),
        grant_id: GrantId(fields::id(message.grant_id, "grant id")?),
        mode: read_mode(message)?,
    })
}
