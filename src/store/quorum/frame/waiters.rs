//! Waiters that are presented to a new leader, and what became of them.

use super::{
    PresentedWaiter,
    outcome::AcquireOutcomeMessage,
    wire::{self, AcquireMessage, BallotMessage, CallMessage},
};
use crate::{
    domain::{ids::Call, name::LockName, outcome::AcquireOutcome},
    store::fields::{self, FieldError},
};

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct WaiterMessage {
    /// Of the leader that queued it.
    #[prost(message, optional, tag = "1")]
    ballot: Option<BallotMessage>,
    #[prost(uint64, tag = "2")]
    place: u64,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(message, optional, tag = "4")]
    acquire: Option<AcquireMessage>,
    #[prost(bool, tag = "5")]
    is_dropped: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct PresentedMessage {
    #[prost(message, optional, tag = "1")]
    call: Option<CallMessage>,
    #[prost(message, optional, tag = "2")]
    outcome: Option<AcquireOutcomeMessage>,
    #[prost(uint64, tag = "3")]
    place: u64,
}

impl From<PresentedWaiter> for WaiterMessage {
    fn from(PresentedWaiter { place: (ballot, place), name, acquire, is_dropped }: PresentedWaiter) -> Self {
        Self { ballot: Some(ballot.into()), place, name: name.into_string(), acquire: Some(acquire.into()), is_dropped }
    }
}

impl WaiterMessage {
    pub(super) fn read(self) -> Result<PresentedWaiter, FieldError> {
        Ok(PresentedWaiter {
            place: (wire::ballot(self.ballot, "ballot of a waiter")?, self.place),
            name: fields::checked("lock name", LockName::new(self.name))?,
            acquire: fields::part(self.acquire, "request")?.read()?,
            is_dropped: self.is_dropped,
        })
    }
}

impl From<(Call, AcquireOutcome, u64)> for PresentedMessage {
    fn from((call, outcome, place): (Call, AcquireOutcome, u64)) -> Self {
        Self { call: Some(call.into()), outcome: Some(outcome.into()), place }
    }
}

impl PresentedMessage {
    pub(super) fn read(self) -> Result<(Call, AcquireOutcome, u64), FieldError> {
        Ok((wire::call(self.call)?, fields::part(self.outcome, "outcome")?.read()?, self.place))
    }
}
