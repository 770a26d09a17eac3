//! Frames: one message each, behind which come those of its list, if it has one.

use super::{
    Frame, FrameError,
    ask::AskMessage,
    hand_over::HandOverMessage,
    notice::NoticeMessage,
    reply::ReplyMessage,
    stream::{Messages, put},
    view::ListedMessage,
    waiters::{PresentedMessage, WaiterMessage},
    wire::{self, BallotMessage},
};
use crate::domain::time::StoreTime;
use crate::store::{
    fields::{self, FieldError},
    quorum::ballot::Ballot,
};

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct FrameMessage {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6, 7, 8")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
#[prost(skip_debug)]
enum Kind {
    #[prost(message, tag = "1")]
    Ask(AskMessage),
    #[prost(message, tag = "2")]
    Reply(ReplyMessage),
    #[prost(message, tag = "3")]
    Notices(NoticesMessage),
    #[prost(message, tag = "4")]
    Gather(LedMessage),
    #[prost(message, tag = "5")]
    Waiters(LedMessage),
    #[prost(message, tag = "6")]
    Presented(LedMessage),
    #[prost(message, tag = "7")]
    HandOver(HandOverMessage),
    #[prost(message, tag = "8")]
    Declines(LedMessage),
}

/// So many notices follow.
#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct NoticesMessage {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(uint64, tag = "2")]
    first: u64,
}

/// What concerns a partition under one leader.
#[derive(Clone, Copy, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct LedMessage {
    #[prost(uint32, tag = "1")]
    partition: u32,
    #[prost(message, optional, tag = "2")]
    ballot: Option<BallotMessage>,
    /// So many waiters follow, or outcomes of waiters.
    #[prost(uint64, tag = "3")]
    count: u64,
    /// Of waiters.
    #[prost(bool, tag = "4")]
    is_last: bool,
    /// The partition's time, of who gathers.
    #[prost(uint64, tag = "5")]
    now: u64,
    /// The partition's time after which waiters are not queued.
    #[prost(uint64, tag = "6")]
    not_after: u64,
}

impl LedMessage {
    fn of(partition: u16, ballot: Ballot, count: usize, is_last: bool) -> Self {
        let (partition, ballot, count) = (partition.into(), Some(ballot.into()), count as u64);
        Self { partition, ballot, count, is_last, now: 0, not_after: 0 }
    }

    fn read(self) -> Result<(u16, Ballot), FieldError> {
        Ok((wire::partition(self.partition)?, wire::ballot(self.ballot, "ballot")?))
    }
}

/// Adds a frame. The number of messages that it takes.
pub(super) fn put_frame(out: &mut Vec<u8>, frame: Frame) -> usize {
    let mut add = |kind| put(out, &FrameMessage { kind: Some(kind) });
    match frame {
        Frame::Ask { number, partition, ballot, not_after, work } => {
            add(Kind::Ask(AskMessage::of(number, partition, ballot, not_after, work)));
            1
        }
        Frame::Reply { number, now, result } => {
            let (message, locks) = ReplyMessage::of(number, now, result);
            add(Kind::Reply(message));
            put_list::<ListedMessage, _>(out, locks)
        }
        Frame::Notices { first, notices } => {
            add(Kind::Notices(NoticesMessage { count: notices.len() as u64, first }));
            put_list::<NoticeMessage, _>(out, notices)
        }
        Frame::Gather { partition, ballot, now } => {
            let message = LedMessage::of(partition, ballot, 0, false);
            add(Kind::Gather(LedMessage { now: now.as_micros(), ..message }));
            1
        }
        Frame::Waiters { partition, ballot, not_after, waiters, is_last } => {
            let message = LedMessage::of(partition, ballot, waiters.len(), is_last);
            add(Kind::Waiters(LedMessage { not_after: not_after.as_micros(), ..message }));
            put_list::<WaiterMessage, _>(out, waiters)
        }
        Frame::Presented { partition, ballot, outcomes } => {
            add(Kind::Presented(LedMessage::of(partition, ballot, outcomes.len(), false)));
            put_list::<PresentedMessage, _>(out, outcomes)
        }
        Frame::HandOver { partition, ballot, ends } => {
            add(Kind::HandOver(HandOverMessage::of(partition, ballot, ends)));
            1
        }
        Frame::Declines { partition, ballot } => {
            add(Kind::Declines(LedMessage::of(partition, ballot, 0, false)));
            1
        }
    }
}

/// Adds what follows a frame. The number of messages with that of the frame.
fn put_list<M: From<T> + prost::Message, T>(out: &mut Vec<u8>, list: Vec<T>) -> usize {
    let count = list.len();
    list.into_iter().for_each(|each| put(out, &M::from(each)));
    1 + count
}

/// Takes a frame.
pub(super) fn next_frame(messages: &mut Messages<'_>) -> Result<Frame, FrameError> {
    let FrameMessage { kind } = messages.next()?;
    Ok(match fields::part(kind, "kind")? {
        Kind::Ask(message) => message.read()?,
        Kind::Reply(message) => message.read(messages)?,
        Kind::Notices(NoticesMessage { count, first }) => {
            Frame::Notices { first, notices: messages.list(count, NoticeMessage::read)? }
        }
        Kind::Gather(message) => {
            let (partition, ballot) = message.read()?;
            Frame::Gather { partition, ballot, now: StoreTime::from_micros(message.now) }
        }
        Kind::Waiters(message @ LedMessage { count, is_last, .. }) => {
            let (partition, ballot) = message.read()?;
            let not_after = StoreTime::from_micros(message.not_after);
            let waiters = messages.list(count, WaiterMessage::read)?;
            Frame::Waiters { partition, ballot, not_after, waiters, is_last }
        }
        Kind::Presented(message @ LedMessage { count, .. }) => {
            let (partition, ballot) = message.read()?;
            Frame::Presented { partition, ballot, outcomes: messages.list(count, PresentedMessage::read)? }
        }
        Kind::HandOver(message) => {
            let (partition, ballot, ends) = message.read()?;
            Frame::HandOver { partition, ballot, ends }
        }
        Kind::Declines(message) => {
            let (partition, ballot) = message.read()?;
            Frame::Declines { partition, ballot }
        }
    })
}
