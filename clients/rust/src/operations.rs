//! The operations of one session: those that are still to be sent, and those under way. Each has a number, by which its
//! answer finds who asked.
//!
//! Whoever is not there any more when the answer comes has no answer to miss; what it grants undoes itself (see
//! [`Grant`](crate::operation::Grant)).

use crate::clock::Moment;
use crate::operation::Outcome;
use crate::v1;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use v1::session_request::Message;

/// How many acquires of a session may be under way, and how many releases: the rest wait their turn here. The two are
/// counted apart because an acquire may wait in line for what a release gives back.
pub(crate) const ACQUIRES: usize = 8_000;
pub(crate) const RELEASES: usize = 2_000;

/// An operation that is not answered.
#[derive(Debug)]
pub(crate) struct UnderWay {
    is_acquire: bool,
    /// What is to be sent, until it is.
    message: Option<Message>,
    /// When it was sent.
    pub(crate) sent: Option<Moment>,
    pub(crate) caller: oneshot::Sender<Outcome>,
    /// Of an acquire, what its lease will be called. Of a release, what it was called, if it was attached here.
    pub(crate) handle: Option<u32>,
    /// Of an acquire, what was asked for.
    pub(crate) ttl: Duration,
    /// Who wants to know how many are before it in line.
    pub(crate) ahead: Option<watch::Sender<Option<u32>>>,
    cancelled: bool,
    /// One of those that may be under way.
    _room: OwnedSemaphorePermit,
}

impl UnderWay {
    pub(crate) fn new(message: Message, caller: oneshot::Sender<Outcome>, room: OwnedSemaphorePermit) -> Self {
        let is_acquire = matches!(message, Message::Acquire(_));
        let (message, ttl, ahead) = (Some(message), Duration::ZERO, None);
        Self { is_acquire, message, sent: None, caller, handle: None, ttl, ahead, cancelled: false, _room: room }
    }

    /// The handle of the lease that a release gives back.
    pub(crate) fn gives_back(&self) -> Option<u32> {
        self.handle.filter(|_| !self.is_acquire)
    }
}

/// What became of an operation that its caller has no interest in any more.
pub(crate) enum Cancelled {
    /// It was never sent, and is not going to be.
    Unsent(Box<UnderWay>),
    /// It was sent, or even answered.
    Sent,
}

#[derive(Debug, Default)]
pub(crate) struct Operations {
    last: u64,
    under_way: HashMap<u64, UnderWay>,
    /// Those that acquires under way have chosen for their leases.
    handles: HashSet<u32>,
    /// Still to be sent, each in order.
    acquires: VecDeque<u64>,
    releases: VecDeque<u64>,
    cancels: VecDeque<u64>,
}

impl Operations {
    /// To be sent when its turn comes. Says its number.
    pub(crate) fn add(&mut self, operation: UnderWay) -> u64 {
        self.last += 1;
        if operation.is_acquire {
            self.handles.extend(operation.handle);
            self.acquires.push_back(self.last);
        } else {
            self.releases.push_back(self.last);
        }
        self.under_way.insert(self.last, operation);
        self.last
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Has an acquire under way chosen this one?
    pub(crate) fn has_chosen(&self, handle: u32) -> bool {
        self.handles.contains(&handle)
    }

    pub(crate) fn get(&self, number: u64) -> Option<&UnderWay> {
        self.under_way.get(&number)
    }

    /// Takes out an operation that was answered.
    pub(crate) fn answered(&mut self, number: u64) -> Option<UnderWay> {
        // What was never sent cannot be answered.
        self.under_way.get(&number)?.sent?;
        let operation = self.under_way.remove(&number)?;
        if let Some(handle) = operation.handle {
            self.handles.remove(&handle);
        }
        Some(operation)
    }

    /// Its caller is gone: an acquire is to wait no longer. A release that was sent is left to the server.
    pub(crate) fn cancel(&mut self, number: u64) -> Cancelled {
        let Some(operation) = self.under_way.get_mut(&number) else { return Cancelled::Sent };
        if operation.sent.is_some() {
            if operation.is_acquire && !operation.cancelled {
                operation.cancelled = true;
                self.cancels.push_back(number);
            }
            return Cancelled::Sent;
        }
        let queue = if operation.is_acquire { &mut self.acquires } else { &mut self.releases };
        queue.retain(|waiting| *waiting != number);
        let Some(operation) = self.under_way.remove(&number) else { return Cancelled::Sent };
        if let Some(handle) = operation.handle {
            self.handles.remove(&handle);
        }
        Cancelled::Unsent(Box::new(operation))
    }

    /// The next release, or acquire to cancel.
    pub(crate) fn next_urgent(&mut self, now: Moment) -> Option<(u64, Message)> {
        if let Some(release) = next(&mut self.releases, &mut self.under_way, now) {
            return Some(release);
        }
        // Answered meanwhile? Then there is nothing to cancel.
        std::iter::from_fn(|| self.cancels.pop_front())
            .find(|operation| self.under_way.contains_key(operation))
            .map(|operation| (0, Message::Cancel(v1::CancelOperation { operation })))
    }

    /// The next acquire.
    pub(crate) fn next_acquire(&mut self, now: Moment) -> Option<(u64, Message)> {
        next(&mut self.acquires, &mut self.under_way, now)
    }

    /// All of them, when there will be no answers.
    pub(crate) fn into_under_way(self) -> impl Iterator<Item = UnderWay> {
        self.under_way.into_values()
    }
}

fn next(queue: &mut VecDeque<u64>, under_way: &mut HashMap<u64, UnderWay>, now: Moment) -> Option<(u64, Message)> {
    while let Some(number) = queue.pop_front() {
        let Some(operation) = under_way.get_mut(&number) else { continue };
        if let Some(message) = operation.message.take() {
            operation.sent = Some(now);
            return Some((number, message));
        }
    }
    None
}
