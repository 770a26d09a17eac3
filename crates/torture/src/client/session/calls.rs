//! The calls of a worker as operations of a session.

use super::{Attachment, Sessions, stream::PendingOperation};
use crate::{
    client::{
        caller::{Answer, CALL_MAX, Caller, Open, Transmission},
        outcome::acquire_end,
    },
    journal,
};
use fencepost_proto::v1::{
    AcquireRequest, AcquireResponse, ReleaseRequest, ReleaseResponse, RenewRequest, RenewResponse,
    session_request::Message as ClientMessage, session_response::Message as ServerMessage,
};
use fencepost_torture::history::AcquireEnd;
use prost::Message as _;
use std::time::Duration;
use tokio::time::timeout;
use tonic::Status;

impl Sessions {
    /// A dropped operation is either cancelled, or its answer is ignored. A lease granted then is not kept alive.
    pub(in super::super) async fn acquire(
        &self,
        caller: &Caller,
        open: Open,
        request: AcquireRequest,
        sent: Transmission,
    ) -> Answer {
        let stream = self.stream_to(sent.server);
        let patience = sent.wait + CALL_MAX;
        let (mut pending, attachment) = stream.acquire(request);
        let Some(drop_after) = sent.drop_after else {
            return answered(caller, open, pending, attachment, patience).await;
        };
        if let Ok(answer) = timeout(drop_after, &mut pending.answer).await {
            return close(caller, open, acquired(answer.map_err(|_| session_ended())), attachment);
        }
        if sent.cancels {
            caller.journal.record(journal::instant_fault("operation-cancelled", open.record.lock.clone()));
            stream.cancel(pending.number);
            return answered(caller, open, pending, attachment, CALL_MAX).await;
        }
        let caller = caller.clone();
        let left = patience.saturating_sub(drop_after);
        tokio::spawn(async move {
            let answer = timeout(left, pending.answer).await;
            let answer = answer.map_or_else(|_| Err(no_answer()), |answer| answer.map_err(|_| session_ended()));
            let (mut end, _) = acquire_end(acquired(answer), open.record.invoke, crate::clock::now());
            if let AcquireEnd::Acquired(grant) = &mut end {
                grant.usable = false;
            }
            caller.close(open, end);
            drop(attachment);
        });
        Answer { end: AcquireEnd::Dropped, lease: None, attachment: None }
    }

    pub(in super::super) async fn release(
        &self,
        request: ReleaseRequest,
        server: usize,
    ) -> Result<ReleaseResponse, Status> {
        match self.send_operation(ClientMessage::Release(request), server).await? {
            ServerMessage::Release(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    pub(in super::super) async fn renew(&self, request: RenewRequest, server: usize) -> Result<RenewResponse, Status> {
        match self.send_operation(ClientMessage::Renew(request), server).await? {
            ServerMessage::Renew(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    async fn send_operation(&self, message: ClientMessage, server: usize) -> Result<ServerMessage, Status> {
        decode(self.stream_to(server).send_operation(message).answer.await.map_err(|_| session_ended()))
    }
}

async fn answered(
    caller: &Caller,
    open: Open,
    pending: PendingOperation,
    attachment: Attachment,
    patience: Duration,
) -> Answer {
    let answer = timeout(patience, pending.answer).await;
    let answer = answer.map_or_else(|_| Err(no_answer()), |answer| answer.map_err(|_| session_ended()));
    close(caller, open, acquired(answer), attachment)
}

fn close(caller: &Caller, open: Open, answer: Result<AcquireResponse, Status>, attachment: Attachment) -> Answer {
    let (end, lease) = acquire_end(answer, open.record.invoke, crate::clock::now());
    caller.close(open, end.clone());
    let attachment = lease.is_some().then_some(attachment);
    Answer { end, lease, attachment }
}

fn acquired(answer: Result<ServerMessage, Status>) -> Result<AcquireResponse, Status> {
    match decode(answer)? {
        ServerMessage::Acquire(answer) => Ok(answer),
        other => Err(unexpected(&other)),
    }
}

/// The error of an operation is the status that its unary call would have.
fn decode(answer: Result<ServerMessage, Status>) -> Result<ServerMessage, Status> {
    match answer? {
        // It has the fields of a status, which a status carries as its details.
        ServerMessage::Error(error) => {
            let details = error.encode_to_vec().into();
            Err(Status::with_details(error.code.into(), error.message, details))
        }
        answer => Ok(answer),
    }
}

fn unexpected(answer: &ServerMessage) -> Status {
    super::protocol_violation(&format!("unexpected answer: {answer:?}"))
}

fn session_ended() -> Status {
    Status::unavailable("the session has ended")
}

fn no_answer() -> Status {
    Status::deadline_exceeded("no answer in time")
}
