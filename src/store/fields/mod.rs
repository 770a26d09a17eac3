//! Fields of the records of a partition, which servers write and nodes store.

#[cfg(test)]
pub(super) mod values;
mod wire;

pub(super) use wire::Wire;

use crate::domain::{
    lease::LeaseEnd,
    name::{BrokenRule, Metadata},
    token::FencingToken,
};
use uuid::Uuid;

/// Why a field cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// Something that is always there is not.
    #[error("it is damaged: its {0} is missing")]
    Missing(&'static str),
    /// A field has a value that it never has.
    #[error("it is damaged: its {0} {1}")]
    Broken(&'static str, String),
}

impl FieldError {
    /// A number that a field never has.
    pub(super) fn number(field: &'static str, number: impl Into<u64>) -> Self {
        Self::Broken(field, format!("cannot be {}", number.into()))
    }
}

/// An id, as two numbers: a field of bytes would be allocated by itself.
#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct Id {
    #[prost(fixed64, tag = "1")]
    high: u64,
    #[prost(fixed64, tag = "2")]
    low: u64,
}

impl From<Uuid> for Id {
    fn from(id: Uuid) -> Self {
        let (high, low) = id.as_u64_pair();
        Self { high, low }
    }
}

impl Id {
    pub(super) fn of(id: Uuid) -> Option<Self> {
        Some(id.into())
    }

    pub(super) fn read(self) -> Uuid {
        Uuid::from_u64_pair(self.high, self.low)
    }
}

/// A part that is always there.
pub(super) fn part<T>(part: Option<T>, field: &'static str) -> Result<T, FieldError> {
    part.ok_or(FieldError::Missing(field))
}

/// An id that is always there.
pub(super) fn id(id: Option<Id>, field: &'static str) -> Result<Uuid, FieldError> {
    part(id, field).map(Id::read)
}

/// A number that has to be a token.
pub(super) fn token(number: u64) -> Result<FencingToken, FieldError> {
    FencingToken::new(number).ok_or_else(|| FieldError::number("token", number))
}

/// The token with this number, where 0 stands for none.
pub(super) fn token_or_none(number: u64) -> Result<Option<FencingToken>, FieldError> {
    if number == 0 { Ok(None) } else { token(number).map(Some) }
}

/// A value that keeps a rule.
pub(super) fn checked<T>(field: &'static str, value: Result<T, BrokenRule>) -> Result<T, FieldError> {
    value.map_err(|rule| FieldError::Broken(field, rule.0))
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

/// The end of a lease with this number, where 0 stands for one that is not known.
pub(super) fn end_or_none(number: u32, field: &'static str) -> Result<Option<LeaseEnd>, FieldError> {
    match (number, end_numbered(number)) {
        (0, _) => Ok(None),
        (_, Some(end)) => Ok(Some(end)),
        (number, None) => Err(FieldError::number(field, number)),
    }
}

/// The metadata of keys and values by turns.
pub(super) fn metadata(texts: Vec<String>) -> Result<Metadata, FieldError> {
    if !texts.len().is_multiple_of(2) {
        return Err(FieldError::Broken("metadata", "has a key without a value".to_owned()));
    }
    let mut texts = texts.into_iter();
    checked("metadata", Metadata::new(std::iter::from_fn(|| texts.next().zip(texts.next()))))
}
