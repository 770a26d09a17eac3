//! Locks and leases, as others see them. Spans are in whole microseconds, rounded down.

use super::wire;
use crate::{
    domain::{
        ids::GrantId,
        name::{Holder, LockName},
        outcome::{ClassicHold, Contention, HolderView, LockView},
        time::micros,
    },
    store::fields::{self, FieldError, Id},
};
use std::time::Duration;

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct HolderMessage {
    #[prost(string, tag = "1")]
    holder: String,
    /// Keys and values by turns.
    #[prost(string, repeated, tag = "2")]
    metadata: Vec<String>,
    #[prost(message, optional, tag = "3")]
    grant_id: Option<Id>,
    #[prost(uint64, tag = "4")]
    token: u64,
    #[prost(uint64, tag = "5")]
    ttl: u64,
    #[prost(uint64, tag = "6")]
    left: u64,
    #[prost(uint64, tag = "7")]
    held: u64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct ClassicMessage {
    #[prost(uint64, optional, tag = "1")]
    left: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct ContentionMessage {
    #[prost(message, optional, tag = "1")]
    current: Option<HolderMessage>,
    #[prost(message, optional, tag = "2")]
    classic: Option<ClassicMessage>,
    #[prost(uint64, tag = "3")]
    waiters: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct LockViewMessage {
    #[prost(message, optional, tag = "1")]
    current: Option<HolderMessage>,
    #[prost(message, optional, tag = "2")]
    classic: Option<ClassicMessage>,
    #[prost(uint64, tag = "3")]
    waiters: u64,
    /// 0 if it is not known.
    #[prost(uint32, tag = "4")]
    previous_end: u32,
    /// 0 if it is not known.
    #[prost(uint64, tag = "5")]
    newest_token: u64,
}

/// A lock of a listing.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct ListedMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    view: Option<LockViewMessage>,
}

impl From<HolderView> for HolderMessage {
    fn from(HolderView { holder, metadata, grant_id, token, ttl, left, held }: HolderView) -> Self {
        Self {
            holder: holder.into_string(),
            metadata: fields::texts(&metadata),
            grant_id: Id::of(grant_id.0),
            token: token.get(),
            ttl: micros(ttl),
            left: micros(left),
            held: micros(held),
        }
    }
}

impl HolderMessage {
    fn read(self) -> Result<HolderView, FieldError> {
        Ok(HolderView {
            holder: fields::checked("holder", Holder::new(self.holder))?,
            metadata: fields::metadata(self.metadata)?,
            grant_id: GrantId(fields::id(self.grant_id, "grant id")?),
            token: fields::token(self.token)?,
            ttl: Duration::from_micros(self.ttl),
            left: Duration::from_micros(self.left),
            held: Duration::from_micros(self.held),
        })
    }
}

impl From<ClassicHold> for ClassicMessage {
    fn from(ClassicHold { left }: ClassicHold) -> Self {
        Self { left: left.map(micros) }
    }
}

impl ClassicMessage {
    fn read(self) -> ClassicHold {
        ClassicHold { left: self.left.map(Duration::from_micros) }
    }
}

impl From<Contention> for ContentionMessage {
    fn from(Contention { current, classic, waiters }: Contention) -> Self {
        Self { current: current.map(Into::into), classic: classic.map(Into::into), waiters: waiters as u64 }
    }
}

impl ContentionMessage {
    pub(super) fn read(self) -> Result<Contention, FieldError> {
        Ok(Contention {
            current: self.current.map(HolderMessage::read).transpose()?,
            classic: self.classic.map(ClassicMessage::read),
            waiters: wire::count(self.waiters, "number of waiters")?,
        })
    }
}

impl From<LockView> for LockViewMessage {
    fn from(LockView { current, classic, waiters, previous_end, newest_token }: LockView) -> Self {
        Self {
            current: current.map(Into::into),
            classic: classic.map(Into::into),
            waiters: waiters as u64,
            previous_end: previous_end.map_or(0, fields::end_number),
            newest_token: newest_token.map_or(0, |token| token.get()),
        }
    }
}

impl LockViewMessage {
    pub(super) fn read(self) -> Result<LockView, FieldError> {
        Ok(LockView {
            current: self.current.map(HolderMessage::read).transpose()?,
            classic: self.classic.map(ClassicMessage::read),
            waiters: wire::count(self.waiters, "number of waiters")?,
            previous_end: fields::end_or_none(self.previous_end, "previous end")?,
            newest_token: fields::token_or_none(self.newest_token)?,
        })
    }
}

impl From<(LockName, LockView)> for ListedMessage {
    fn from((name, view): (LockName, LockView)) -> Self {
        Self { name: name.into_string(), view: Some(view.into()) }
    }
}

impl ListedMessage {
    pub(super) fn read(self) -> Result<(LockName, LockView), FieldError> {
        let name = fields::checked("lock name", LockName::new(self.name))?;
        Ok((name, fields::part(self.view, "lock")?.read()?))
    }
}
