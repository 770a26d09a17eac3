//! The calls of a worker, as operations of a session.

use super::{Kept, Sessions, stream::Asked};
use crate::{
    client::{
        caller::{Answer, CALL_MAX, Caller, Open, Transmission},
        outcome::acquire_end,
    },
    journal,
};
use fencepost_proto::v1::{
    AcquireRequest, AcquireResponse, ReleaseRequest, ReleaseResponse, RenewRequest, RenewResponse,
    session_request::Message as Say, session_response::Message as Hear,
};
use fencepost_torture::history::AcquireEnd;
use prost::Message as _;
use std::time::Duration;
use tokio::time::timeout;
use tonic::Status;

impl Sessions {
    /// Dropping it is not enough to end an operation: some are cancelled, and of some nobody hears the answer. What is
    /// granted then is not kept alive.
    pub(in super::super) async fn acquire(
        &self,
        caller: &Caller,
        open: Open,
        request: AcquireRequest,
        sent: Transmission,
    ) -> Answer {
        let stream = self.with(sent.server);
        let patience = sent.wait + CALL_MAX;
        let (mut asked, kept) = stream.acquire(request);
        let Some(drop_after) = sent.drop_after else { return answered(caller, open, asked, kept, patience).await };
        if let Ok(answer) = timeout(drop_after, &mut asked.answer).await {
            return close(caller, open, acquired(answer.map_err(|_| over())), kept);
        }
        if sent.cancels {
            caller.journal.note(journal::moment("operation-cancelled", open.record.lock.clone()));
            stream.cancel(asked.number);
            return answered(caller, open, asked, kept, CALL_MAX).await;
        }
        let caller = caller.clone();
        let left = patience.saturating_sub(drop_after);
        tokio::spawn(async move {
            let answer = timeout(left, asked.answer).await;
            let answer = answer.map_or_else(|_| Err(silence()), |answer| answer.map_err(|_| over()));
            let (mut end, _) = acquire_end(acquired(answer), open.record.invoke, crate::clock::now());
            if let AcquireEnd::Acquired(grant) = &mut end {
                grant.usable = false;
            }
            caller.close(open, end);
            drop(kept);
        });
        Answer { end: AcquireEnd::Dropped, lease: None, kept: None }
    }

    pub(in super::super) async fn release(
        &self,
        request: ReleaseRequest,
        server: usize,
    ) -> Result<ReleaseResponse, Status> {
        match self.ask(Say::Release(request), server).await? {
            Hear::Release(answer) => Ok(answer),
            other => Err(senseless(&other)),
        }
    }

    pub(in super::super) async fn renew(&self, request: RenewRequest, server: usize) -> Result<RenewResponse, Status> {
        match self.ask(Say::Renew(request), server).await? {
            Hear::Renew(answer) => Ok(answer),
            other => Err(senseless(&other)),
        }
    }

    async fn ask(&self, message: Say, server: usize) -> Result<Hear, Status> {
        hear(self.with(server).ask(message).answer.await.map_err(|_| over()))
    }
}

async fn answered(caller: &Caller, open: Open, asked: Asked, kept: Kept, patience: Duration) -> Answer {
    let answer = timeout(patience, asked.answer).await;
    let answer = answer.map_or_else(|_| Err(silence()), |answer| answer.map_err(|_| over()));
    close(caller, open, acquired(answer), kept)
}

fn close(caller: &Caller, open: Open, answer: Result<AcquireResponse, Status>, kept: Kept) -> Answer {
    let (end, lease) = acquire_end(answer, open.record.invoke, crate::clock::now());
    caller.close(open, end.clone());
    let kept = lease.is_some().then_some(kept);
    Answer { end, lease, kept }
}

fn acquired(answer: Result<Hear, Status>) -> Result<AcquireResponse, Status> {
    match hear(answer)? {
        Hear::Acquire(answer) => Ok(answer),
        other => Err(senseless(&other)),
    }
}

/// The error of an operation is the status that its unary call would have had.
fn hear(answer: Result<Hear, Status>) -> Result<Hear, Status> {
    match answer? {
        // Its fields are those that a status carries as its details.
        Hear::Error(error) => {
            let details = error.encode_to_vec().into();
            Err(Status::with_details(error.code.into(), error.message, details))
        }
        answer => Ok(answer),
    }
}

fn senseless(answer: &Hear) -> Status {
    super::wrong(&format!("no answer to what was asked: {answer:?}"))
}

fn over() -> Status {
    Status::unavailable("the session is over")
}

fn silence() -> Status {
    Status::deadline_exceeded("no answer in time")
}
