//! The operations of one session, unsent or in flight. Each has a number that its answer repeats.
//!
//! If the caller is gone when the answer arrives, a granted lease is detached on drop (see
//! [`Grant`](crate::operation::Grant)).

use crate::clock::Moment;
use crate::operation::Outcome;
use crate::v1;
use std::collections::{HashMap, HashSet, VecDeque};
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use v1::session_request::Message;

/// The maximum numbers of acquires and releases in flight on a session; more wait for a permit. They are counted
/// separately, because a queued acquire may wait for a release.
pub(crate) const ACQUIRES: usize = 8_000;
pub(crate) const RELEASES: usize = 2_000;

/// An operation without an answer.
#[derive(Debug)]
pub(crate) struct InFlight {
    is_acquire: bool,
    /// The message, until it is sent.
    message: Option<Message>,
    /// When it was sent.
    pub(crate) sent: Option<Moment>,
    pub(crate) caller: oneshot::Sender<Outcome>,
    /// For an acquire, the handle reserved for its lease. For a release, the handle of the lease if it was attached
    /// here.
    pub(crate) handle: Option<u32>,
    /// Receives the queue position.
    pub(crate) position: Option<watch::Sender<Option<u32>>>,
    cancelled: bool,
    /// Frees the permit when the operation ends.
    _permit: OwnedSemaphorePermit,
}

impl InFlight {
    pub(crate) fn new(message: Message, caller: oneshot::Sender<Outcome>, permit: OwnedSemaphorePermit) -> Self {
        let is_acquire = matches!(message, Message::Acquire(_));
        let (message, position) = (Some(message), None);
        Self { is_acquire, message, sent: None, caller, handle: None, position, cancelled: false, _permit: permit }
    }

    /// The handle of the lease that a release ends.
    pub(crate) fn released_handle(&self) -> Option<u32> {
        self.handle.filter(|_| !self.is_acquire)
    }
}

/// The state of an operation that was cancelled.
pub(crate) enum Cancelled {
    /// It was not sent, and never will be.
    Unsent(Box<InFlight>),
    /// It was sent, and may be answered.
    Sent,
}

#[derive(Debug, Default)]
pub(crate) struct Operations {
    last: u64,
    in_flight: HashMap<u64, InFlight>,
    /// Handles reserved by acquires in flight.
    handles: HashSet<u32>,
    /// Unsent, each in order.
    acquires: VecDeque<u64>,
    releases: VecDeque<u64>,
    cancels: VecDeque<u64>,
}

impl Operations {
    /// Queues an operation and returns its number.
    pub(crate) fn add(&mut self, operation: InFlight) -> u64 {
        self.last += 1;
        if operation.is_acquire {
            self.handles.extend(operation.handle);
            self.acquires.push_back(self.last);
        } else {
            self.releases.push_back(self.last);
        }
        self.in_flight.insert(self.last, operation);
        self.last
    }

    /// Whether anybody waits for an answer. A cancelled operation may never be answered.
    pub(crate) fn are_awaited(&self) -> bool {
        self.in_flight.values().any(|operation| !operation.caller.is_closed())
    }

    /// Whether an acquire in flight has reserved this handle.
    pub(crate) fn is_reserved(&self, handle: u32) -> bool {
        self.handles.contains(&handle)
    }

    pub(crate) fn get(&self, number: u64) -> Option<&InFlight> {
        self.in_flight.get(&number)
    }

    /// Removes an answered operation.
    pub(crate) fn answered(&mut self, number: u64) -> Option<InFlight> {
        // An unsent operation cannot be answered.
        self.in_flight.get(&number)?.sent?;
        let operation = self.in_flight.remove(&number)?;
        if let Some(handle) = operation.handle {
            self.handles.remove(&handle);
        }
        Some(operation)
    }

    /// The caller is gone: an acquire stops waiting. A release that was sent is left to the server.
    pub(crate) fn cancel(&mut self, number: u64) -> Cancelled {
        let Some(operation) = self.in_flight.get_mut(&number) else { return Cancelled::Sent };
        if operation.sent.is_some() {
            if operation.is_acquire && !operation.cancelled {
                operation.cancelled = true;
                self.cancels.push_back(number);
            }
            return Cancelled::Sent;
        }
        let queue = if operation.is_acquire { &mut self.acquires } else { &mut self.releases };
        queue.retain(|waiting| *waiting != number);
        let Some(operation) = self.in_flight.remove(&number) else { return Cancelled::Sent };
        if let Some(handle) = operation.handle {
            self.handles.remove(&handle);
        }
        Cancelled::Unsent(Box::new(operation))
    }

    /// The next release, or acquire to cancel.
    pub(crate) fn next_urgent(&mut self, now: Moment) -> Option<(u64, Message)> {
        if let Some(release) = next(&mut self.releases, &mut self.in_flight, now) {
            return Some(release);
        }
        // Skip those answered meanwhile.
        std::iter::from_fn(|| self.cancels.pop_front())
            .find(|operation| self.in_flight.contains_key(operation))
            .map(|operation| (0, Message::Cancel(v1::CancelOperation { operation })))
    }

    /// The next acquire.
    pub(crate) fn next_acquire(&mut self, now: Moment) -> Option<(u64, Message)> {
        next(&mut self.acquires, &mut self.in_flight, now)
    }

    /// All operations, when no more answers will arrive.
    pub(crate) fn into_in_flight(self) -> impl Iterator<Item = InFlight> {
        self.in_flight.into_values()
    }
}

fn next(queue: &mut VecDeque<u64>, in_flight: &mut HashMap<u64, InFlight>, now: Moment) -> Option<(u64, Message)> {
    while let Some(number) = queue.pop_front() {
        let Some(operation) = in_flight.get_mut(&number) else { continue };
        if let Some(message) = operation.message.take() {
            operation.sent = Some(now);
            return Some((number, message));
        }
    }
    None
}
