//! The operations of a session: handed over, answered, or left unanswered when it ends.

use super::Link;
use crate::clock::Moment;
use crate::error::CallError;
use crate::lease::{LeaseKey, LeaseState};
use crate::operation::{Answer, Grant, Operation, Outcome};
use crate::operations::UnderWay;
use crate::proto::duration;
use crate::v1;
use crate::validity::Reading;
use prost::Message as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tonic::Status;
use v1::acquire_response::Outcome as Acquired;
use v1::session_response::Message;

/// How large the request of an operation may be. A server takes messages of 64 KiB; what is around it takes 25 bytes at
/// most.
const REQUEST_BYTES_MAX: usize = 64 * 1024 - 32;

fn too_large(bytes: usize) -> Status {
    let max = REQUEST_BYTES_MAX;
    Status::invalid_argument(format!("the request has {bytes} bytes, at most {max} can be sent: shorten what it says"))
}

/// Leave to hand over one operation: so many may be under way.
pub(crate) struct Room(OwnedSemaphorePermit);

impl Room {
    fn now(room: &Arc<Semaphore>) -> Option<Self> {
        room.clone().try_acquire_owned().ok().map(Self)
    }
}

impl Link {
    pub(crate) fn room_to_acquire(&self) -> Option<Room> {
        Room::now(&self.acquires)
    }

    pub(crate) async fn turn_to_acquire(&self, limit: Duration) -> Result<Room, CallError> {
        self.turn(&self.acquires, limit).await
    }

    pub(crate) fn room_to_release(&self) -> Option<Room> {
        Room::now(&self.releases)
    }

    pub(crate) async fn turn_to_release(&self, limit: Duration) -> Result<Room, CallError> {
        self.turn(&self.releases, limit).await
    }

    /// Waits for its turn, in order, no longer than `limit`. Dropped, it leaves the line.
    async fn turn(&self, room: &Arc<Semaphore>, limit: Duration) -> Result<Room, CallError> {
        let timer = self.core.sleep(limit);
        tokio::select! {
            biased;
            room = room.clone().acquire_owned() => {
                room.map(Room).map_err(|_| CallError::unsent(self.ended_with()))
            }
            () = timer => Err(CallError::unsent(Status::deadline_exceeded("too much under way for too long"))),
        }
    }

    /// Asks for a lock. What is granted is attached here.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        request: v1::AcquireRequest,
        ahead: Option<watch::Sender<Option<u32>>>,
        room: Room,
    ) -> Operation {
        let (caller, outcome) = oneshot::channel();
        let bytes = request.encoded_len();
        let number = self.hand_over(bytes, caller, |outbox, caller| outbox.acquire(request, ahead, caller, room.0));
        Operation::new(self.clone(), number, outcome)
    }

    /// Gives a lease back, whether it is attached here or not.
    pub(crate) fn release(self: &Arc<Self>, key: LeaseKey, request: v1::ReleaseRequest, room: Room) -> Operation {
        let (caller, outcome) = oneshot::channel();
        let bytes = request.encoded_len();
        let number = self.hand_over(bytes, caller, |outbox, caller| outbox.release(key, request, caller, room.0));
        Operation::new(self.clone(), number, outcome)
    }

    /// A message that is too large would end the session, and what else is under way with it: it is refused here.
    fn hand_over(
        &self,
        bytes: usize,
        caller: oneshot::Sender<Outcome>,
        add: impl FnOnce(&mut crate::outbox::Outbox, oneshot::Sender<Outcome>) -> u64,
    ) -> u64 {
        if bytes > REQUEST_BYTES_MAX {
            let _nobody_waits = caller.send(Err(CallError::new(too_large(bytes))));
            return 0;
        }
        let mut outbox = self.outbox();
        if outbox.is_closed() {
            drop(outbox);
            let _nobody_waits = caller.send(Err(CallError::unsent(self.ended_with())));
            return 0;
        }
        add(&mut outbox, caller)
    }

    /// An operation's caller is gone. Says whether it was sent.
    pub(crate) fn give_up(&self, number: u64) -> bool {
        self.outbox().give_up(number)
    }

    /// Is anything under way?
    pub(crate) fn is_busy(&self) -> bool {
        !self.outbox().operations.is_empty()
    }

    pub(super) fn moved_up(&self, number: u64, waiting: v1::Waiting) {
        let outbox = self.outbox();
        if let Some(ahead) = outbox.operations.get(number).and_then(|operation| operation.ahead.as_ref()) {
            ahead.send_replace(Some(waiting.ahead));
        }
    }

    pub(super) fn answered(self: &Arc<Self>, number: u64, mut message: Message, now: Moment) {
        let failed = matches!(message, Message::Error(_));
        let found = self.outbox().operation_answered(number, failed);
        let Some((operation, sent)) = found.and_then(|operation| operation.sent.map(|sent| (operation, sent))) else {
            tracing::warn!(server = self.server, "the server answered what was not asked");
            return;
        };
        let outcome = match &mut message {
            Message::Error(error) => Err(self.failed(error)),
            Message::Acquire(answer) => {
                let grant = self.granted(&operation, answer, sent, now);
                Ok(Answer { sent, message, grant })
            }
            _ => Ok(Answer { sent, message, grant: None }),
        };
        // Nobody waits for it any more? What was granted is detached as it is dropped here.
        drop(operation.caller.send(outcome));
    }

    /// What an acquire was granted is attached from here on, whether its caller has heard of it or not.
    fn granted(
        self: &Arc<Self>,
        operation: &UnderWay,
        answer: &mut v1::AcquireResponse,
        sent: Moment,
        now: Moment,
    ) -> Option<Grant> {
        if answer.outcome() != Acquired::Acquired {
            return None;
        }
        let (lease, handle) = (answer.lease.take()?, operation.handle?);
        let (held_for, ttl) = (duration(answer.held_for), duration(lease.ttl));
        let reading = Reading { sent, read: now, held_for, ttl };
        let lease = LeaseState::new(self.core.next_key(), lease, reading, operation.ttl).attached_by_grant();
        let lease = Arc::new(lease);
        self.outbox().granted(handle, lease.clone(), sent);
        Some(Grant::new(lease, self.clone()))
    }

    fn failed(&self, error: &v1::OperationError) -> CallError {
        let error = CallError::of_operation(error);
        if error.is_draining() {
            self.drains();
        }
        error
    }

    /// There will be no more answers.
    pub(super) fn leave_unanswered(&self, operations: impl Iterator<Item = UnderWay>) {
        self.acquires.close();
        self.releases.close();
        let status = self.ended_with();
        for operation in operations {
            let error = match operation.sent {
                Some(_) => CallError::new(status.clone()),
                None => CallError::unsent(status.clone()),
            };
            let _nobody_waits = operation.caller.send(Err(error));
        }
    }
}
