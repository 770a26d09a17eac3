//! The operations of a session: sent, answered, or failed when the session ends.

use super::Session;
use crate::clock::Moment;
use crate::error::CallError;
use crate::facts;
use crate::lease::{LeaseKey, LeaseState};
use crate::operation::{Answer, Grant, Operation, Outcome};
use crate::operations::InFlight;
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

/// The maximum size of the request of an operation. A server accepts messages of 64 KiB, and the envelope takes at most
/// 25 bytes.
const REQUEST_BYTES_MAX: usize = facts::REQUEST_BYTES_MAX - 32;

fn too_large(bytes: usize) -> Status {
    let max = REQUEST_BYTES_MAX;
    Status::invalid_argument(format!("the request has {bytes} bytes, the maximum is {max}: shorten its fields"))
}

/// A permit for one in-flight operation.
pub(crate) struct Permit(OwnedSemaphorePermit);

impl Permit {
    fn try_new(semaphore: &Arc<Semaphore>) -> Option<Self> {
        semaphore.clone().try_acquire_owned().ok().map(Self)
    }
}

impl Session {
    pub(crate) fn try_permit_for_acquire(&self) -> Option<Permit> {
        Permit::try_new(&self.acquires)
    }

    pub(crate) async fn permit_for_acquire(&self, limit: Duration) -> Result<Permit, CallError> {
        self.wait_for_permit(&self.acquires, limit).await
    }

    pub(crate) fn try_permit_for_release(&self) -> Option<Permit> {
        Permit::try_new(&self.releases)
    }

    pub(crate) async fn permit_for_release(&self, limit: Duration) -> Result<Permit, CallError> {
        self.wait_for_permit(&self.releases, limit).await
    }

    /// Waits for a permit, in order, at most `limit`. Dropped, it leaves the queue.
    async fn wait_for_permit(&self, semaphore: &Arc<Semaphore>, limit: Duration) -> Result<Permit, CallError> {
        let timer = self.core.sleep(limit);
        tokio::select! {
            biased;
            permit = semaphore.clone().acquire_owned() => {
                permit.map(Permit).map_err(|_| self.ended_with().before_sending())
            }
            () = timer => Err(CallError::unsent(Status::deadline_exceeded("too many operations in flight"))),
        }
    }

    /// Requests a lock. A granted lease is attached to this session.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        request: v1::AcquireRequest,
        position: Option<watch::Sender<Option<u32>>>,
        permit: Permit,
    ) -> Operation {
        let (caller, outcome) = oneshot::channel();
        let bytes = request.encoded_len();
        let number = self.enqueue(bytes, caller, |outbox, caller| outbox.acquire(request, position, caller, permit.0));
        Operation::new(self.clone(), number, outcome)
    }

    /// Releases a lease, whether it is attached to this session or not.
    pub(crate) fn release(self: &Arc<Self>, key: LeaseKey, request: v1::ReleaseRequest, permit: Permit) -> Operation {
        let (caller, outcome) = oneshot::channel();
        let bytes = request.encoded_len();
        let number = self.enqueue(bytes, caller, |outbox, caller| outbox.release(key, request, caller, permit.0));
        Operation::new(self.clone(), number, outcome)
    }

    /// Queues an operation. A message that is too large would end the session and fail its other operations, so it is
    /// refused here.
    fn enqueue(
        &self,
        bytes: usize,
        caller: oneshot::Sender<Outcome>,
        add: impl FnOnce(&mut crate::outbox::Outbox, oneshot::Sender<Outcome>) -> u64,
    ) -> u64 {
        if bytes > REQUEST_BYTES_MAX {
            let _caller_is_gone = caller.send(Err(CallError::new(too_large(bytes))));
            return 0;
        }
        let mut outbox = self.outbox();
        if outbox.is_closed() {
            drop(outbox);
            let _caller_is_gone = caller.send(Err(self.ended_with().before_sending()));
            return 0;
        }
        add(&mut outbox, caller)
    }

    /// The caller of an operation is gone. Returns whether the operation was sent.
    pub(crate) fn give_up(&self, number: u64) -> bool {
        self.outbox().give_up(number)
    }

    /// Whether anybody waits for an answer.
    pub(crate) fn is_busy(&self) -> bool {
        self.outbox().operations.are_awaited()
    }

    /// An operation that was asked for at `asked` got no answer in time.
    pub(crate) fn not_answered(&self, asked: Moment) {
        let mut hangs = false;
        self.change_health(|health| {
            hangs = health.last_received <= asked;
            health.hangs |= hangs;
        });
        if hangs {
            self.went_silent();
        }
    }

    pub(super) fn queue_moved(&self, number: u64, waiting: v1::Waiting) {
        let outbox = self.outbox();
        if let Some(position) = outbox.operations.get(number).and_then(|operation| operation.position.as_ref()) {
            position.send_replace(Some(waiting.ahead));
        }
    }

    pub(super) fn answered(self: &Arc<Self>, number: u64, mut message: Message, now: Moment) {
        let failed = matches!(message, Message::Error(_));
        let found = self.outbox().operation_answered(number, failed);
        let Some((operation, sent)) = found.and_then(|operation| operation.sent.map(|sent| (operation, sent))) else {
            tracing::warn!(server = self.server, "answer to an unknown operation");
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
        // If the caller is gone, a grant is detached when it is dropped here.
        drop(operation.caller.send(outcome));
    }

    /// Attaches a granted lease, whether the caller has received it or not.
    fn granted(
        self: &Arc<Self>,
        operation: &InFlight,
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
        let lease = LeaseState::new(self.core.next_key(), lease.into(), reading).attached_by_grant();
        let lease = Arc::new(lease);
        self.outbox().granted(handle, lease.clone(), sent);
        Some(Grant::new(lease, self.clone()))
    }

    fn failed(&self, error: &v1::OperationError) -> CallError {
        let error = CallError::from_operation(error);
        if error.is_draining() {
            self.drains();
        }
        error
    }

    /// Fails the remaining operations: no more answers will arrive.
    pub(super) fn fail_operations(&self, operations: impl Iterator<Item = InFlight>) {
        self.acquires.close();
        self.releases.close();
        let ended = self.ended_with();
        for operation in operations {
            let error = match operation.sent {
                Some(_) => ended.clone(),
                None => ended.clone().before_sending(),
            };
            let _caller_is_gone = operation.caller.send(Err(error));
        }
    }
}
