//! Releases a lease: retried with the same ids until the outcome is known or a bound is reached.
//!
//! The first transmission is sent on a session before the first await, without a task. If it fails or the caller is
//! dropped, the release continues in the background.

use crate::clock::Moment;
use crate::core::Core;
use crate::error::CallError;
use crate::events;
use crate::keeper::Keeper;
use crate::lease::{LeaseKey, LeaseState};
use crate::operation::{Operation, Outcome};
use crate::release::{ReleaseError, Released};
use crate::status::{Loss, LossCause};
use crate::v1;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tonic::Status;
use v1::session_response::Message;

pub(crate) struct Releasing {
    unfinished: Option<Unfinished>,
}

/// The state of an unfinished release.
struct Unfinished {
    core: Arc<Core>,
    keeper: Arc<Keeper>,
    key: LeaseKey,
    request: v1::ReleaseRequest,
    until: Moment,
    /// The transmission in flight.
    operation: Option<Operation>,
    /// The server and the error of the previous transmission.
    failed: Option<(usize, CallError)>,
}

impl Releasing {
    /// Stops renewing and sends the release. No renewal is sent after this.
    pub(crate) fn start(core: Arc<Core>, keeper: Arc<Keeper>, lease: &LeaseState) -> Self {
        // In this order: a concurrent attach either sees that the lease has ended or is undone by the removal.
        lease.end(Loss::new(LossCause::Released));
        let (key, lock_name, lease_id) = (lease.key, lease.name.clone(), lease.lease_id.clone());
        let request = v1::ReleaseRequest { lock_name, lease_id };
        let operation = keeper.release(key, &request);
        let until = Moment::now().plus(core.retry_for);
        Self { unfinished: Some(Unfinished { core, keeper, key, request, until, operation, failed: None }) }
    }

    /// Dropped, the release continues in the background.
    pub(crate) async fn finish(mut self) -> Result<Released, ReleaseError> {
        if let Some(unfinished) = &mut self.unfinished
            && let Some(outcome) = unfinished.outcome().await
        {
            self.unfinished = None;
            return Ok(outcome?.into());
        }
        let Some(unfinished) = self.unfinished.take() else {
            return Err(ReleaseError::OutcomeUnknown { cause: None });
        };
        match unfinished.in_background().await {
            Ok(outcome) => Ok(outcome?.into()),
            Err(_shutting_down) => Err(ReleaseError::OutcomeUnknown { cause: None }),
        }
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        let Some(unfinished) = self.unfinished.take() else { return };
        let (core, lock_name) = (unfinished.core.clone(), unfinished.request.lock_name.clone());
        drop(core.in_background(async move {
            if let Err(error) = unfinished.finish().await {
                events::not_released(&lock_name, &error);
            }
        }));
    }
}

impl Unfinished {
    /// Waits for the transmission in flight, if there is one. `None` if another one is needed. Cancel-safe.
    async fn outcome(&mut self) -> Option<Result<v1::ReleaseResponse, CallError>> {
        let operation = self.operation.as_mut()?;
        let limit = self.core.limit(Duration::ZERO, self.until);
        let outcome = released(operation.outcome(&self.core, limit).await);
        let server = operation.server();
        self.operation = None;
        match outcome {
            Err(error) if error.is_transient() || error.is_session_full() || error.may_open_later() => {
                self.failed = Some((server, error));
                None
            }
            known => Some(known),
        }
    }

    /// Sends and retries. Dropped with the runtime, the last transmission may still be applied.
    async fn finish(mut self) -> Result<v1::ReleaseResponse, CallError> {
        let core = self.core.clone();
        let mut retries = core.retries(self.until);
        loop {
            if let Some(outcome) = self.outcome().await {
                return outcome;
            }
            if let Some((server, error)) = self.failed.take() {
                retries.failed(server, error).await?;
            }
            let session = self.keeper.session();
            match session.permit_for_release(core.limit(Duration::ZERO, self.until)).await {
                Ok(permit) => self.operation = Some(session.release(self.key, self.request.clone(), permit)),
                Err(ended) => self.failed = Some((session.server, ended)),
            }
        }
    }

    fn in_background(self) -> JoinHandle<Result<v1::ReleaseResponse, CallError>> {
        let core = self.core.clone();
        core.in_background(self.finish())
    }
}

/// Decodes the answer to a release.
fn released(outcome: Outcome) -> Result<v1::ReleaseResponse, CallError> {
    match outcome?.message {
        Message::Release(response) => Ok(response),
        _ => Err(CallError::new(Status::internal("the server answered a release with another message"))),
    }
}
