//! Giving a lease back: repeated with the same ids until the outcome is known, or a bound is over.
//!
//! The first transmission is handed to a session before anything is awaited, and needs no task of its own. If it fails,
//! or if nobody waits for it any more, it goes on in the background.

use crate::clock::Moment;
use crate::core::Core;
use crate::error::CallError;
use crate::keeper::Keeper;
use crate::lease::{LeaseKey, LeaseState, LossCause, Lost};
use crate::operation::{Operation, Outcome};
use crate::release::{ReleaseError, Released};
use crate::v1;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tonic::Status;
use v1::session_response::Message;

pub(crate) struct Releasing {
    rest: Option<Rest>,
}

/// What is still to be done.
struct Rest {
    core: Arc<Core>,
    keeper: Arc<Keeper>,
    key: LeaseKey,
    request: v1::ReleaseRequest,
    until: Moment,
    /// The transmission under way.
    operation: Option<Operation>,
    /// What the one before failed with, on which server.
    failed: Option<(usize, CallError)>,
}

impl Releasing {
    /// Ends the keeping and sends the release. Nothing that could renew the lease is sent after this.
    pub(crate) fn start(core: Arc<Core>, keeper: Arc<Keeper>, lease: &LeaseState) -> Self {
        // In this order: whoever attaches the lease at this moment either sees its end or is undone by the removal.
        lease.end(Lost::new(LossCause::Released, 0));
        let (key, lock_name, lease_id) = (lease.key, lease.name.clone(), lease.lease_id.clone());
        let request = v1::ReleaseRequest { lock_name, lease_id };
        let operation = keeper.release(key, &request);
        let until = Moment::now().plus(core.retry_for);
        Self { rest: Some(Rest { core, keeper, key, request, until, operation, failed: None }) }
    }

    /// Dropped, it goes on in the background.
    pub(crate) async fn finish(mut self) -> Result<Released, ReleaseError> {
        if let Some(rest) = &mut self.rest
            && let Some(outcome) = rest.outcome().await
        {
            self.rest = None;
            return Ok(outcome?.into());
        }
        let Some(rest) = self.rest.take() else { return Err(ReleaseError::OutcomeUnknown { source: None }) };
        match rest.in_background().await {
            Ok(outcome) => Ok(outcome?.into()),
            Err(_shutting_down) => Err(ReleaseError::OutcomeUnknown { source: None }),
        }
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take() {
            drop(rest.in_background()); // the task goes on
        }
    }
}

impl Rest {
    /// Waits for the transmission under way, if there is one. `None` if there must be another. Dropped, it misses
    /// nothing.
    async fn outcome(&mut self) -> Option<Result<v1::ReleaseResponse, CallError>> {
        let operation = self.operation.as_mut()?;
        let limit = self.core.limit(Duration::ZERO, self.until);
        let outcome = released(operation.outcome(&self.core, limit).await);
        let server = operation.server();
        self.operation = None;
        match outcome {
            Err(error) if error.may_pass() || error.is_session_full() => {
                self.failed = Some((server, error));
                None
            }
            known => Some(known),
        }
    }

    /// Repeats it. Dropped with the runtime, it leaves the last transmission to the server.
    async fn finish(mut self) -> Result<v1::ReleaseResponse, CallError> {
        let core = self.core.clone();
        let mut repeats = core.repeats(self.until);
        loop {
            if let Some(outcome) = self.outcome().await {
                return outcome;
            }
            if let Some((server, error)) = self.failed.take() {
                repeats.failed(server, error).await?;
            }
            let link = self.keeper.link();
            match link.turn_to_release(core.limit(Duration::ZERO, self.until)).await {
                Ok(room) => self.operation = Some(link.release(self.key, self.request.clone(), room)),
                Err(ended) => self.failed = Some((link.server, ended)),
            }
        }
    }

    fn in_background(self) -> JoinHandle<Result<v1::ReleaseResponse, CallError>> {
        let core = self.core.clone();
        core.in_background(self.finish())
    }
}

/// What the server says became of the lease.
fn released(outcome: Outcome) -> Result<v1::ReleaseResponse, CallError> {
    match outcome?.message {
        Message::Release(response) => Ok(response),
        _ => Err(CallError::new(Status::internal("the server's answer is not one to a release"))),
    }
}
