//! The cleanup behind an acquire that was given up.
//!
//! What waits on a session is cancelled there, and still answered: if the grant came first, it is released. If there is
//! no such answer, the next attempt, with no wait, takes the request out of the line on the server or answers the lease
//! that was granted, which is then released.

use crate::attempts::{Attempts, Way, is_open_after};
use crate::core::Core;
use crate::keeper::Keeper;
use crate::operation::Operation;
use crate::releasing::Releasing;
use crate::v1;
use std::sync::Arc;
use v1::acquire_response::Outcome;

/// Waits for the answer to an acquire that was cancelled; without one, takes back the request, which is the next
/// attempt's. Dropped with the runtime, it leaves a place in line for 3 s, or a lease for its TTL.
pub(crate) async fn operation(
    core: Arc<Core>,
    keeper: Arc<Keeper>,
    mut operation: Operation,
    request: v1::AcquireRequest,
    repeated: bool,
) {
    match operation.outcome(&core, core.call_timeout).await {
        Ok(answer) => {
            if let Some(grant) = answer.grant {
                let released = Releasing::start(core, keeper, &grant.lease).finish().await;
                tracing::debug!(?released, "released a lock whose acquire was given up");
            }
        }
        Err(error) if is_open_after(&error, repeated) => self::request(core, request).await,
        // Refused: done.
        Err(_) => {}
    }
}

/// Takes a request back that may be in line or may have been granted, by unary calls: whatever is wrong with the
/// sessions does not concern them. Ends within the retry bound. Dropped with the runtime, it leaves what it found: a
/// place in line for 3 s, or a lease for its TTL.
pub(crate) async fn request(core: Arc<Core>, mut request: v1::AcquireRequest) {
    request.wait_timeout = None;
    let answer = match Attempts::new(core.clone(), Way::Calls, request, false).run().await {
        Ok(answer) => answer.timed.message,
        Err(error) => return tracing::debug!(%error, "could not take back an acquire that was given up"),
    };
    // Not held, not in line? Then it is done.
    if answer.outcome() == Outcome::Acquired
        && let Some(v1::Lease { lock_name, lease_id, .. }) = answer.lease
    {
        let released = crate::release::call(&core, v1::ReleaseRequest { lock_name, lease_id }).await;
        tracing::debug!(?released, "released a lock whose acquire was given up");
    }
}
