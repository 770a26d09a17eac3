//! A worker with unary calls only: Renew is its keep-alive.

use super::{held_lease::HeldLease, work::GrantRef, worker::Worker};
use anyhow::Result;
use std::time::Duration;
use tokio::time::sleep;

/// Longer than any lease without renewals.
const LONG: Duration = Duration::from_secs(10);

pub(super) async fn run(mut worker: Worker) -> Result<()> {
    while !worker.is_ending() {
        let (terms, wait) = worker.choose();
        if let Some(held) = worker.acquire(&terms, wait).await {
            hold(&mut worker, &held).await?;
        }
        worker.think().await;
    }
    Ok(())
}

async fn hold(worker: &mut Worker, held: &HeldLease) -> Result<()> {
    let mut grant_ref = GrantRef::of(held);
    if worker.rng.chance(1) {
        // Abandon the lease: the lock becomes free when it ends, and the holder knows when.
        let (caller, held) = (worker.caller.clone(), held.clone());
        tokio::spawn(async move { while !held.ended_within(&caller, LONG).await {} });
        return Ok(());
    }
    if worker.is_to_be_late(&grant_ref) && held.ttl <= Duration::from_secs(2) {
        let caller = worker.caller.clone();
        let over = async { while !held.ended_within(&caller, LONG).await {} };
        return worker.step_late(&grant_ref, over).await;
    }
    let mut left = worker.hold_for(held.ttl);
    loop {
        if !worker.step(&grant_ref, || held.is_valid()).await? {
            break;
        }
        grant_ref = worker.convert_sometimes(held).await.unwrap_or(grant_ref);
        if worker.rng.chance(35) {
            let server = worker.rng.index(worker.caller.servers());
            match worker.caller.renew(held, server).await {
                Some(Ok(valid_until)) => held.extend(valid_until),
                Some(Err(lost)) => held.lose(&worker.caller, lost),
                None => {}
            }
        }
        let part = left.min(Duration::from_millis(100));
        if held.ended_within(&worker.caller, part).await || part.is_zero() {
            break;
        }
        left -= part;
        if left.is_zero() {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    if !held.is_valid() {
        held.expire(&worker.caller);
    }
    // Release a lost lease too: the answer says how it ended, and the successor must not be affected.
    worker.release(held).await;
    Ok(())
}
