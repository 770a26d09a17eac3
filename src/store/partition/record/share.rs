//! The record of a lease beside others, or of its ghost.

use super::{
    LAYOUT_OF_GHOSTS, RecordError,
    delay::{DelayMessage, delay_message, read_delay},
    lock::{LeaseMessage, lease_message, mode_message, read_lease, read_mode},
};
use crate::{
    domain::{ids::GrantId, lease::Lease, rules::Ghost, time::StoreTime},
    store::{
        content::Bytes,
        fields::{self, FieldError, Id},
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
    let mut message = lease_message(lease);
    message.expires_at = expires_at.as_micros();
    super::encode(message.layout_of_share(), &message)
}

/// The record of a ghost, under the key of its lease.
pub fn encode_ghost(ghost: &Ghost) -> Bytes {
    let Ghost { delay, grant_id, mode } = ghost;
    let mut message = mode_message(mode);
    message.grant_id = Id::of(grant_id.0);
    message.token = delay.token.get();
    message.delay = Some(delay_message(delay));
    message.handed_on = delay.lease().map_or(0, |lease| fields::end_number(lease.handed_on));
    super::encode(message.layout_of_share(), &message)
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
    Ok(Some(super::encode(message.layout_of_share(), &message)))
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
