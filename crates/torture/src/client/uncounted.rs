//! A worker that retries a request under the same attempt number, as clients without a counter, gRPC's retry policy and
//! proxies do.
//!
//! It holds a lease from a retry until its end, and never renews it. If the cleanup after an earlier call of the same
//! number shortens that lease, a second holder is granted the lock while this one considers its own lease valid.

use super::{held_lease::HeldLease, work::GrantRef, worker::Worker};
use crate::clock;
use anyhow::Result;
use std::time::Duration;

/// An acquire that takes this much longer than its wait was retried, by the worker or by gRPC.
const PROMPT: Duration = Duration::from_millis(100);
/// The pause between two steps of a holder.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn run(mut worker: Worker) -> Result<()> {
    while !worker.is_ending() {
        let (terms, wait) = worker.choose();
        let prompt_until = clock::now() + clock::nanos(wait + PROMPT);
        if let Some(held) = worker.acquire(&terms, wait).await {
            let was_repeated = clock::now() > prompt_until;
            let long = if was_repeated { held.ttl } else { worker.hold_for(held.ttl) };
            hold(&mut worker, &held, long).await?;
        }
        worker.think().await;
    }
    Ok(())
}

async fn hold(worker: &mut Worker, held: &HeldLease, long: Duration) -> Result<()> {
    let grant_ref = GrantRef::of(held);
    let bound = clock::now() + clock::nanos(long);
    while worker.step(&grant_ref, || held.is_valid()).await? && !worker.is_ending() {
        let left = clock::until(bound);
        if left.is_zero() || held.ended_within(&worker.caller, left.min(PAUSE)).await {
            break;
        }
    }
    if !held.is_valid() {
        held.expire(&worker.caller);
    }
    // Release a lost lease too: the answer says how it ended, and the successor must not be affected.
    worker.release(held).await;
    Ok(())
}
