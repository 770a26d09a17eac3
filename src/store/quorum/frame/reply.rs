//! What came of work that a leader was asked for.

use super::{Done, Frame, FrameError, Refusal, outcome::OutcomeMessage, stream::Messages, view::ListedMessage};
use crate::{
    domain::{name::LockName, outcome::LockView, time::StoreTime},
    store::fields::{self, FieldError},
};

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct ReplyMessage {
    #[prost(uint64, tag = "1")]
    number: u64,
    /// In microseconds.
    #[prost(uint64, tag = "2")]
    now: u64,
    #[prost(oneof = "Kind", tags = "3, 4, 5, 6")]
    result: Option<Kind>,
    /// Of an outcome.
    #[prost(uint64, tag = "7")]
    place: u64,
    /// Of an outcome.
    #[prost(uint64, tag = "8")]
    ahead: u64,
}

#[derive(Clone, PartialEq, prost::Oneof)]
#[prost(skip_debug)]
enum Kind {
    #[prost(message, tag = "3")]
    Outcome(OutcomeMessage),
    #[prost(message, tag = "4")]
    Page(PageMessage),
    #[prost(message, tag = "5")]
    Watching(()),
    /// One of the constants below.
    #[prost(uint32, tag = "6")]
    Refused(u32),
}

const NOT_LEADER: u32 = 1;
const TOO_LATE: u32 = 2;
const UNHEARD: u32 = 3;
const OVERLOADED: u32 = 4;
const DEPOSED: u32 = 5;

/// So many locks follow.
#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct PageMessage {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(uint64, optional, tag = "2")]
    next: Option<u64>,
    #[prost(uint32, tag = "3")]
    budget: u32,
}

impl ReplyMessage {
    /// With the locks that follow it.
    pub(super) fn of(number: u64, now: StoreTime, result: Result<Done, Refusal>) -> (Self, Vec<(LockName, LockView)>) {
        let (mut follow, mut at) = (Vec::new(), (0, 0));
        let result = match result {
            Ok(Done::Outcome { outcome, place, ahead }) => {
                at = (place, ahead);
                Kind::Outcome(outcome.into())
            }
            Ok(Done::Page { locks, next, budget }) => {
                follow = locks;
                Kind::Page(PageMessage { count: follow.len() as u64, next, budget })
            }
            Ok(Done::Watching) => Kind::Watching(()),
            Err(refusal) => Kind::Refused(refusal_number(refusal)),
        };
        let (place, ahead) = at;
        (Self { number, now: now.as_micros(), result: Some(result), place, ahead }, follow)
    }

    pub(super) fn read(self, following: &mut Messages<'_>) -> Result<Frame, FrameError> {
        let result = match fields::part(self.result, "result")? {
            Kind::Outcome(outcome) => {
                Ok(Done::Outcome { outcome: outcome.read()?, place: self.place, ahead: self.ahead })
            }
            Kind::Page(PageMessage { count, next, budget }) => {
                Ok(Done::Page { locks: following.list(count, ListedMessage::read)?, next, budget })
            }
            Kind::Watching(()) => Ok(Done::Watching),
            Kind::Refused(number) => Err(refusal_numbered(number)?),
        };
        Ok(Frame::Reply { number: self.number, now: StoreTime::from_micros(self.now), result })
    }
}

const fn refusal_number(refusal: Refusal) -> u32 {
    match refusal {
        Refusal::NotLeader => NOT_LEADER,
        Refusal::TooLate => TOO_LATE,
        Refusal::Unheard => UNHEARD,
        Refusal::Overloaded => OVERLOADED,
        Refusal::Deposed => DEPOSED,
    }
}

fn refusal_numbered(number: u32) -> Result<Refusal, FieldError> {
    match number {
        NOT_LEADER => Ok(Refusal::NotLeader),
        TOO_LATE => Ok(Refusal::TooLate),
        UNHEARD => Ok(Refusal::Unheard),
        OVERLOADED => Ok(Refusal::Overloaded),
        DEPOSED => Ok(Refusal::Deposed),
        _ => Err(FieldError::number("refusal", number)),
    }
}
