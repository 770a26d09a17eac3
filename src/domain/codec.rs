//! The codec of the domain's types, for messages between servers: CBOR whose fields have numbers. Each type derives it;
//! this module has what a derive cannot say.
//!
//! A number is never given to another field or variant. A new field is optional, or has a default: servers of the
//! version before skip it, and do not send it. A new variant is an error for them, so it is sent only to servers that
//! understand it.

use super::{
    limits::{METADATA_BYTES_MAX, REASON_BYTES_MAX},
    name::{BrokenRule, Holder, Identity, LockName, Metadata, Owner, Reason},
    token::FencingToken,
};
use minicbor::{
    Decode, Decoder, Encode, Encoder,
    decode::Error,
    encode::{self, Write},
};

/// A client may send an empty key once. All others have a byte at least.
const PAIRS_MAX: u64 = METADATA_BYTES_MAX as u64 + 1;

fn broken(field: &str, rule: impl std::fmt::Display) -> Error {
    Error::message(format_args!("its {field} {rule}"))
}

macro_rules! text {
    ($type:ident, $field:literal, $read:expr) => {
        impl<C> Encode<C> for $type {
            fn encode<W: Write>(&self, to: &mut Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
                to.str(self.as_str())?.ok()
            }
        }

        impl<'b, C> Decode<'b, C> for $type {
            fn decode(from: &mut Decoder<'b>, _: &mut C) -> Result<Self, Error> {
                let read: fn(&str) -> Result<Self, BrokenRule> = $read;
                read(from.str()?).map_err(|BrokenRule(rule)| broken($field, rule))
            }
        }
    };
}

text!(LockName, "lock name", |text| Self::new(text));
text!(Holder, "holder", |text| Self::new(text.to_owned()));
text!(Owner, "owner", |text| Self::new(text.to_owned()));
text!(Identity, "identity", |text| Ok(Self::new(text.into())));
text!(Reason, "reason", |text| Self::new(text.to_owned()));

impl<C> Encode<C> for Metadata {
    fn encode<W: Write>(&self, to: &mut Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
        to.map(self.len() as u64)?;
        self.pairs().try_for_each(|(key, value)| to.str(key)?.str(value)?.ok())
    }
}

impl<'b, C> Decode<'b, C> for Metadata {
    fn decode(from: &mut Decoder<'b>, _: &mut C) -> Result<Self, Error> {
        let pairs = from.map()?.filter(|pairs| *pairs <= PAIRS_MAX);
        let pairs = pairs.ok_or_else(|| broken("metadata", "has more pairs than there can be"))?;
        let pairs = (0..pairs).map(|_| Ok((from.str()?.to_owned(), from.str()?.to_owned())));
        let pairs = pairs.collect::<Result<Vec<_>, Error>>()?;
        Self::new(pairs).map_err(|BrokenRule(rule)| broken("metadata", rule))
    }
}

impl<C> Encode<C> for FencingToken {
    fn encode<W: Write>(&self, to: &mut Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
        to.u64(self.get())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for FencingToken {
    fn decode(from: &mut Decoder<'b>, _: &mut C) -> Result<Self, Error> {
        let number = from.u64()?;
        Self::new(number).ok_or_else(|| broken("token", format_args!("cannot be {number}")))
    }
}

/// An id, as 16 bytes.
pub(crate) mod id {
    use super::*;
    use uuid::Uuid;

    pub(crate) fn encode<C, W: Write>(
        id: &Uuid,
        to: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        to.bytes(id.as_bytes())?.ok()
    }

    pub(crate) fn decode<C>(from: &mut Decoder<'_>, _: &mut C) -> Result<Uuid, Error> {
        let bytes = from.bytes()?;
        Uuid::from_slice(bytes).map_err(|_| broken("id", format_args!("has {} bytes", bytes.len())))
    }
}

/// A span, in whole microseconds, rounded down: no lease seems to have more left than it has.
pub(crate) mod span {
    use super::*;
    use crate::domain::time::micros;
    use std::time::Duration;

    pub(crate) fn encode<C, W: Write>(
        span: &Duration,
        to: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        to.u64(micros(*span))?.ok()
    }

    pub(crate) fn decode<C>(from: &mut Decoder<'_>, _: &mut C) -> Result<Duration, Error> {
        from.u64().map(Duration::from_micros)
    }
}

/// The same of a span that may be missing.
pub(crate) mod optional_span {
    use super::*;
    use std::time::Duration;

    #[expect(clippy::ref_option, reason = "the derived code calls it so")]
    pub(crate) fn encode<C, W: Write>(
        span: &Option<Duration>,
        to: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        match span {
            Some(span) => super::span::encode(span, to, context),
            None => to.null()?.ok(),
        }
    }

    pub(crate) fn decode<C>(from: &mut Decoder<'_>, context: &mut C) -> Result<Option<Duration>, Error> {
        if from.datatype()? == minicbor::data::Type::Null {
            return from.null().map(|()| None);
        }
        super::span::decode(from, context).map(Some)
    }

    pub(crate) fn nil() -> Option<Option<Duration>> {
        Some(None)
    }

    #[expect(clippy::ref_option, reason = "the derived code calls it so")]
    pub(crate) fn is_nil(span: &Option<Duration>) -> bool {
        span.is_none()
    }
}

/// A mode: the exclusive one is left out, so that a request for it is the same to servers that know no other.
pub(crate) mod mode {
    use super::*;
    use crate::domain::mode::{Mode, Permits};
    use minicbor::data::Type;

    const SHARED: u8 = 1;

    pub(crate) fn encode<C, W: Write>(
        mode: &Mode,
        to: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        match mode {
            Mode::Exclusive => to.null()?.ok(),
            Mode::Shared => to.u8(SHARED)?.ok(),
            Mode::Semaphore(permits) => (**permits).encode(to, context),
        }
    }

    pub(crate) fn decode<C>(from: &mut Decoder<'_>, context: &mut C) -> Result<Mode, Error> {
        match from.datatype()? {
            Type::Null => from.null().map(|()| Mode::Exclusive),
            Type::Array => {
                let Permits { count, limit, slot } = Permits::decode(from, context)?;
                let permits = Permits::new(count, limit).map(|permits| Permits { slot, ..permits });
                let permits = permits.ok_or_else(|| broken("permits", format_args!("cannot be {count}")))?;
                Ok(Mode::Semaphore(Box::new(permits)))
            }
            _ => match from.u8()? {
                SHARED => Ok(Mode::Shared),
                other => Err(broken("mode", format_args!("cannot be {other}"))),
            },
        }
    }

    pub(crate) fn nil() -> Option<Mode> {
        Some(Mode::Exclusive)
    }

    pub(crate) fn is_nil(mode: &Mode) -> bool {
        *mode == Mode::Exclusive
    }
}

/// The name of a mode: the exclusive one is left out, as servers do that know no other.
pub(crate) mod mode_name {
    use super::*;
    use crate::domain::mode::ModeName;

    pub(crate) fn encode<C, W: Write>(
        mode: &ModeName,
        to: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        if nil().as_ref() == Some(mode) { to.null()?.ok() } else { mode.encode(to, context) }
    }

    pub(crate) fn decode<C>(from: &mut Decoder<'_>, context: &mut C) -> Result<ModeName, Error> {
        Ok(Option::decode(from, context)?.unwrap_or(ModeName::Exclusive))
    }

    pub(crate) fn nil() -> Option<ModeName> {
        Some(ModeName::Exclusive)
    }

    pub(crate) fn is_nil(mode: &ModeName) -> bool {
        *mode == ModeName::Exclusive
    }
}

/// A text of at most so many bytes.
pub(crate) fn bounded(from: &mut Decoder<'_>, field: &str, bytes_max: usize) -> Result<String, Error> {
    let text = from.str()?;
    if text.len() > bytes_max {
        return Err(broken(field, format_args!("has {} bytes: too many", text.len())));
    }
    Ok(text.to_owned())
}

/// A reason of an operator, or of the server itself, which may be empty.
pub(crate) fn reason<C>(from: &mut Decoder<'_>, _: &mut C) -> Result<String, Error> {
    bounded(from, "reason", REASON_BYTES_MAX)
}

/// A holder's label that is only shown.
pub(crate) fn label<C>(from: &mut Decoder<'_>, context: &mut C) -> Result<String, Error> {
    Holder::decode(from, context).map(Holder::into_string)
}
