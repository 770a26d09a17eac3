//! A worker that repeats a request under the same attempt number, as clients that do not count, gRPC's retry policy and
//! proxies do.
//!
//! It keeps a lease that a repeat got until its end, and never renews it. If the cleanup after an earlier call of the
//! same number cuts that lease, a second holder gets in while this one takes its own lease for valid.

use super::{holding::Holding, taking::Worker, work::Name};
use crate::clock;
use anyhow::Result;
use std::time::Duration;

/// An acquire that takes this much longer than its wait was repeated, by the worker or by gRPC.
const PROMPT: Duration = Duration::from_millis(100);
/// Between two steps of a holder.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn run(mut worker: Worker) -> Result<()> {
    while !worker.is_ending() {
        let (terms, wait) = worker.choose();
        let prompt_until = clock::now() + clock::nanos(wait + PROMPT);
        if let Some(holding) = worker.take(&terms, wait).await {
            let was_repeated = clock::now() > prompt_until;
            let long = if was_repeated { holding.ttl } else { worker.hold_for(holding.ttl) };
            hold(&mut worker, &holding, long).await?;
        }
        worker.think().await;
    }
    Ok(())
}

async fn hold(worker: &mut Worker, holding: &Holding, long: Duration) -> Result<()> {
    let name = Name::of(holding);
    let bound = clock::now() + clock::nanos(long);
    while worker.step(&name, || holding.is_valid()).await? && !worker.is_ending() {
        let left = clock::until(bound);
        if left.is_zero() || holding.over_within(&worker.caller, left.min(PAUSE)).await {
            break;
        }
    }
    if !holding.is_valid() {
        holding.run_out(&worker.caller);
    }
    // A lost lease too: its release is answered with how it ended, and must not touch the successor.
    worker.give_back(holding).await;
    Ok(())
}
