//! One operation of a session, as its caller sees it, and what it is answered.

use crate::clock::Moment;
use crate::core::Core;
use crate::error::CallError;
use crate::lease::{LeaseState, LossCause, Lost};
use crate::link::Link;
use crate::v1;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tonic::Status;
use v1::session_response::Message;

/// What became of an operation.
pub(crate) type Outcome = Result<Answer, CallError>;

#[derive(Debug)]
pub(crate) struct Answer {
    /// When the operation was sent.
    pub(crate) sent: Moment,
    pub(crate) message: Message,
    /// What an acquire was granted: the answer's lease has moved here.
    pub(crate) grant: Option<Grant>,
}

/// A lease that was granted on a session, and is attached to it from then on. Unless it is [kept](Self::keep) it is
/// detached: a lease that nobody has must end by its TTL.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) lease: Arc<LeaseState>,
    link: Option<Arc<Link>>,
}

impl Grant {
    pub(crate) fn new(lease: Arc<LeaseState>, link: Arc<Link>) -> Self {
        Self { lease, link: Some(link) }
    }

    /// Somebody sees to the lease from now on.
    pub(crate) fn keep(mut self) -> Arc<LeaseState> {
        self.link = None;
        self.lease.clone()
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            self.lease.end(Lost::new(LossCause::Detached, 0));
            link.detach(self.lease.key);
        }
    }
}

/// An operation that was handed to a session. Dropped, it is of no interest any more: what was not sent is not going to
/// be, an acquire leaves the line, and a release is left to the server.
#[derive(Debug)]
pub(crate) struct Operation {
    link: Arc<Link>,
    number: u64,
    outcome: oneshot::Receiver<Outcome>,
    answered: bool,
}

impl Operation {
    pub(crate) fn new(link: Arc<Link>, number: u64, outcome: oneshot::Receiver<Outcome>) -> Self {
        Self { link, number, outcome, answered: false }
    }

    pub(crate) fn server(&self) -> usize {
        self.link.server
    }

    /// Waits for the outcome, no longer than `limit`. Dropped, it misses nothing.
    pub(crate) async fn outcome(&mut self, core: &Core, limit: Duration) -> Outcome {
        let timer = core.sleep(limit);
        let outcome = tokio::select! {
            biased;
            outcome = &mut self.outcome => outcome,
            () = timer => {
                let sent = self.give_up();
                let late = Status::deadline_exceeded("no answer in time");
                return Err(if sent { CallError::new(late) } else { CallError::unsent(late) });
            }
        };
        self.answered = true;
        outcome.unwrap_or_else(|_| Err(CallError::new(Status::unavailable("the session ended"))))
    }

    /// Waits no longer. Says whether it was sent: if so, it is still answered.
    pub(crate) fn give_up(&self) -> bool {
        self.link.give_up(self.number)
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if !self.answered {
            self.give_up();
        }
    }
}
