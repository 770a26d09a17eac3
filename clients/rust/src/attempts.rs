//! One request for a lock, over all of its transmissions.
//!
//! Every transmission carries the same request id and the next attempt number, so whatever the network lost or delayed,
//! the effect is that of one request. If the caller gives up, or the bound is over with the outcome unknown, a clean-up in
//! the background takes the request back: the next attempt, with no wait, takes it out of the line on the server or
//! answers the lease that was granted, which is then released.

use crate::clock::Moment;
use crate::core::Core;
use crate::error::CallError;
use crate::proto::{duration, wire};
use crate::servers::Lane;
use crate::v1;
use crate::validity::Reading;
use std::sync::Arc;
use std::time::Duration;
use tonic::Code;
use v1::acquire_response::Outcome;
use v1::lock_service_client::LockServiceClient;

/// An answer, with the moment that what it says is counted from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Timed<T> {
    /// When the very transmission that was answered was sent.
    pub sent_at: Moment,
    /// The answer.
    pub message: T,
}

impl Timed<v1::AcquireResponse> {
    /// What it says of its lease.
    pub(crate) fn reading(&self, lease: &v1::Lease) -> Reading {
        Reading {
            sent: self.sent_at,
            read: Moment::now(),
            held_for: duration(self.message.held_for),
            ttl: duration(lease.ttl),
        }
    }
}

pub(crate) struct Attempts {
    core: Arc<Core>,
    /// As it was last transmitted.
    request: v1::AcquireRequest,
    wait: Duration,
    clean_up: bool,
    /// Transmitted, and not answered yet.
    open: bool,
}

impl Attempts {
    /// With `clean_up` a request that is given up is taken back in the background.
    pub(crate) fn new(core: Arc<Core>, request: v1::AcquireRequest, clean_up: bool) -> Self {
        let wait = duration(request.wait_timeout);
        Self { core, request, wait, clean_up, open: false }
    }

    /// Dropped at any of its awaits, it leaves the clean-up running.
    pub(crate) async fn run(mut self) -> Result<Timed<v1::AcquireResponse>, CallError> {
        let core = self.core.clone();
        let line_until = Moment::now().plus(self.wait);
        let until = line_until.plus(core.retry_for);
        let lane = if self.wait.is_zero() { Lane::Prompt } else { Lane::Waiting };
        let first = self.request.attempt.max(1);
        let mut transmissions = 0_u32;
        let result = core
            .repeat(lane, until, |channel| {
                let mut wait = self.wait;
                let mut request = self.request.clone();
                if self.open {
                    wait = line_until.from_now().min(wait);
                    request.attempt = request.attempt.saturating_add(1);
                    request.wait_timeout = wire(wait);
                } else {
                    request.attempt = first;
                }
                self.request.attempt = request.attempt;
                self.open = true;
                transmissions += 1;
                let limit = core.limit(wait, until);
                let core = core.clone();
                async move {
                    let mut client = LockServiceClient::new(channel);
                    let sent_at = Moment::now();
                    let message = core.within(limit, request, |request| client.acquire(request)).await?;
                    Ok(Timed { sent_at, message })
                }
            })
            .await;
        self.open = match &result {
            Ok(_) => false,
            // Says what became of the request, whichever transmission did it.
            Err(error) if error.code() == Code::Aborted => false,
            // Any other refusal is that of its own transmission: an earlier one may be in line all the same, or granted.
            Err(error) => error.is_outcome_unknown() || (transmissions > 1 && !error.is_unreachable()),
        };
        result
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        if self.open && self.clean_up {
            let core = self.core.clone();
            let mut request = std::mem::take(&mut self.request);
            request.attempt = request.attempt.saturating_add(1);
            self.core.in_background(take_back(core, request));
        }
    }
}

/// Takes a request back that may be in line or may have been granted. Ends within the retry bound. Dropped with the
/// runtime, it leaves what it found: a place in line for 3 s, or a lease for its TTL.
async fn take_back(core: Arc<Core>, mut request: v1::AcquireRequest) {
    request.wait_timeout = None;
    match Attempts::new(core.clone(), request, false).run().await {
        Ok(Timed { message, .. }) if message.outcome() == Outcome::Acquired => {
            if let Some(lease) = message.lease {
                let released = crate::release::release(&core, &lease.lock_name, &lease.lease_id).await;
                tracing::debug!(?released, "released a lock whose acquire was given up");
            }
        }
        // Not held, not in line: done.
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "could not take back an acquire that was given up"),
    }
}
