//! Cleanup after an abandoned acquire.
//!
//! An acquire on a session is cancelled there and still answered: if the grant came first, the lease is released.
//! Without an answer, a further attempt with no wait either withdraws the request from the queue or returns the granted
//! lease, which is then released.

use crate::attempts::{Attempts, may_be_applied};
use crate::core::Core;
use crate::events;
use crate::keeper::Keeper;
use crate::operation::Operation;
use crate::releasing::Releasing;
use crate::v1;
use std::sync::Arc;
use v1::acquire_response::Outcome;

/// Waits for the answer to a cancelled acquire; without one, withdraws `request`, which has the next attempt number.
/// Dropped with the runtime, it leaves a queue position for 3 s, or a lease for its TTL.
pub(crate) async fn operation(
    core: Arc<Core>,
    keeper: Arc<Keeper>,
    mut operation: Operation,
    request: v1::AcquireRequest,
    was_open: bool,
) {
    match operation.outcome(&core, core.call_timeout).await {
        Ok(answer) => {
            if let Some(grant) = answer.grant {
                tracing::debug!(lock = grant.lease.name, "an abandoned acquire was granted and is released");
                if let Err(error) = Releasing::start(core, keeper, &grant.lease).finish().await {
                    events::not_released(&grant.lease.name, &error);
                }
            }
        }
        Err(error) if may_be_applied(&error, was_open) => self::request(core, request).await,
        // Refused: nothing to clean up.
        Err(_) => {}
    }
}

/// Withdraws a request that may be queued or granted. Uses unary calls, which do not depend on a session. Ends within
/// the retry bound. Dropped with the runtime, it leaves a queue position for 3 s, or a lease for its TTL.
pub(crate) async fn request(core: Arc<Core>, request: v1::AcquireRequest) {
    let lock_name = request.lock_name.clone();
    let answer = match Attempts::withdrawing(core.clone(), request).run().await {
        Ok(answer) => answer.timed.message,
        Err(error) => return events::not_released(&lock_name, &error),
    };
    // Neither held nor queued: nothing to do.
    if answer.outcome() == Outcome::Acquired
        && let Some(v1::Lease { lease_id, .. }) = answer.lease
    {
        let request = v1::ReleaseRequest { lock_name: lock_name.clone(), lease_id };
        if let Err(error) = crate::release::call(&core, request).await {
            events::not_released(&lock_name, &error);
        }
    }
}
