//! What the messages of records share.

use super::RecordError;
use crate::domain::{lease::LeaseEnd, name::BrokenRule, token::FencingToken};
use uuid::Uuid;

/// An id, as two numbers: a field of bytes would be allocated by itself.
#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct Id {
    #[prost(fixed64, tag = "1")]
    high: u64,
    #[prost(fixed64, tag = "2")]
    low: u64,
}

impl Id {
    pub(super) fn of(id: Uuid) -> Option<Self> {
        let (high, low) = id.as_u64_pair();
        Some(Self { high, low })
    }

    /// Of an id that is often nil, which then takes no room.
    pub(super) fn unless_nil(id: Uuid) -> Option<Self> {
        Self::of(id).filter(|_| !id.is_nil())
    }

    pub(super) fn read(self) -> Uuid {
        Uuid::from_u64_pair(self.high, self.low)
    }
}

/// An id that is always there.
pub(super) fn id(id: Option<Id>, field: &'static str) -> Result<Uuid, RecordError> {
    id.map(Id::read).ok_or(RecordError::Missing(field))
}

/// A number that has to be a token.
pub(super) fn token(number: u64) -> Result<FencingToken, RecordError> {
    FencingToken::new(number).ok_or_else(|| RecordError::Broken("token", format!("cannot be {number}")))
}

/// A value that keeps a rule.
pub(super) fn checked<T>(field: &'static str, value: Result<T, BrokenRule>) -> Result<T, RecordError> {
    value.map_err(|rule| RecordError::broken(field, rule))
}

/// The number of the end of a lease, from 1 on.
pub(super) const fn end_number(end: LeaseEnd) -> u32 {
    match end {
        LeaseEnd::Released => 1,
        LeaseEnd::Expired => 2,
        LeaseEnd::Revoked => 3,
    }
}

/// The end of a lease with this number.
pub(super) const fn end_numbered(number: u32) -> Option<LeaseEnd> {
    match number {
        1 => Some(LeaseEnd::Released),
        2 => Some(LeaseEnd::Expired),
        3 => Some(LeaseEnd::Revoked),
        _ => None,
    }
}
