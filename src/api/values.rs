//! Values of fields in messages.

use crate::domain::{lease::LeaseEnd, mode::ModeName, name::Identity, outcome::Fate, token::FencingToken};
use fencepost_proto::v1;
use std::{num::NonZeroU32, time::Duration};
use uuid::Uuid;

pub(super) fn duration(span: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or(0),
    }
}

/// An id as text, without the formatter that its `Display` writes through.
pub(super) fn id(id: Uuid) -> String {
    id.hyphenated().encode_lower(&mut Uuid::encode_buffer()).to_owned()
}

pub(super) fn identity(identity: Option<&Identity>) -> String {
    identity.map_or_else(String::new, |identity| identity.as_str().to_owned())
}

pub(super) fn mode(mode: ModeName) -> v1::LockMode {
    match mode {
        ModeName::Exclusive => v1::LockMode::Exclusive,
        ModeName::Shared => v1::LockMode::Shared,
        ModeName::Semaphore => v1::LockMode::Semaphore,
    }
}

pub(super) fn slot(slot: Option<NonZeroU32>) -> u32 {
    slot.map_or(0, NonZeroU32::get)
}

pub(super) fn fate(fate: Fate) -> v1::LeaseEnd {
    match fate {
        Fate::Ended(end) => lease_end(end),
        Fate::Superseded => v1::LeaseEnd::Superseded,
        Fate::Unknown => v1::LeaseEnd::Unknown,
    }
}

pub(super) fn previous_end(end: Option<LeaseEnd>) -> v1::LeaseEnd {
    end.map_or(v1::LeaseEnd::Unspecified, lease_end)
}

pub(super) fn lease_end(end: LeaseEnd) -> v1::LeaseEnd {
    match end {
        LeaseEnd::Released => v1::LeaseEnd::Released,
        LeaseEnd::Expired => v1::LeaseEnd::Expired,
        LeaseEnd::Revoked => v1::LeaseEnd::Revoked,
    }
}

pub(super) fn number(token: Option<FencingToken>) -> u64 {
    token.map_or(0, FencingToken::get)
}

pub(super) fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
