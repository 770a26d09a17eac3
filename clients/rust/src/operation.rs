//! One operation of a session as its caller sees it, and its answer.

use crate::clock::Moment;
use crate::core::Core;
use crate::error::CallError;
use crate::lease::LeaseState;
use crate::session::Session;
use crate::silence;
use crate::status::{Loss, LossCause};
use crate::v1;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tonic::Status;
use v1::session_response::Message;

/// The outcome of an operation.
pub(crate) type Outcome = Result<Answer, CallError>;

#[derive(Debug)]
pub(crate) struct Answer {
    /// When the operation was sent.
    pub(crate) sent: Moment,
    pub(crate) message: Message,
    /// The lease of a granted acquire, moved out of the message.
    pub(crate) grant: Option<Grant>,
}

/// A lease that was granted on a session and is attached to it. Unless it is [kept](Self::keep) it is detached on drop:
/// a lease without an owner must end by its TTL.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) lease: Arc<LeaseState>,
    session: Option<Arc<Session>>,
}

impl Grant {
    pub(crate) fn new(lease: Arc<LeaseState>, session: Arc<Session>) -> Self {
        Self { lease, session: Some(session) }
    }

    /// Takes ownership of the lease.
    pub(crate) fn keep(mut self) -> Arc<LeaseState> {
        self.session = None;
        self.lease.clone()
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            self.lease.end(Loss::new(LossCause::Detached));
            session.detach(self.lease.key);
        }
    }
}

/// An operation of a session. Dropped, it is cancelled: one that was not sent never will be, an acquire leaves the
/// queue, and a release is left to the server.
#[derive(Debug)]
pub(crate) struct Operation {
    session: Arc<Session>,
    number: u64,
    outcome: oneshot::Receiver<Outcome>,
    answered: bool,
}

impl Operation {
    pub(crate) fn new(session: Arc<Session>, number: u64, outcome: oneshot::Receiver<Outcome>) -> Self {
        Self { session, number, outcome, answered: false }
    }

    pub(crate) fn server(&self) -> usize {
        self.session.server
    }

    /// Waits for the outcome, at most `limit`. Cancel-safe.
    pub(crate) async fn outcome(&mut self, core: &Core, limit: Duration) -> Outcome {
        let (asked, timer) = (Moment::now(), core.sleep(limit));
        let outcome = tokio::select! {
            biased;
            outcome = &mut self.outcome => outcome,
            () = timer => {
                self.session.not_answered(asked);
                let sent = self.give_up();
                let late = silence::no_answer();
                return Err(if sent { CallError::new(late) } else { CallError::unsent(late) });
            }
        };
        self.answered = true;
        outcome.unwrap_or_else(|_| Err(CallError::new(Status::unavailable("the session ended"))))
    }

    /// Stops waiting. Returns whether the operation was sent: if so, it is still answered.
    pub(crate) fn give_up(&self) -> bool {
        self.session.give_up(self.number)
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if !self.answered {
            self.give_up();
        }
    }
}
