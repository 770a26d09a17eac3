//! A worker with nothing but the unary calls: Renew is its keep-alive.

use super::{holding::Holding, taking::Worker, work::Name};
use anyhow::Result;
use std::time::Duration;
use tokio::time::sleep;

/// Longer than any lease that nobody renews.
const LONG: Duration = Duration::from_secs(10);

pub(super) async fn run(mut worker: Worker) -> Result<()> {
    while !worker.is_ending() {
        let (terms, wait) = worker.choose();
        if let Some(holding) = worker.take(&terms, wait).await {
            hold(&mut worker, &holding).await?;
        }
        worker.think().await;
    }
    Ok(())
}

async fn hold(worker: &mut Worker, holding: &Holding) -> Result<()> {
    let name = Name::of(holding);
    match worker.rng.below(100) {
        // Gone without a word: the lock is free when the lease is over, which the holder knows as well.
        0..1 => {
            let (caller, holding) = (worker.caller.clone(), holding.clone());
            tokio::spawn(async move { while !holding.over_within(&caller, LONG).await {} });
            return Ok(());
        }
        1..4 if holding.ttl <= Duration::from_secs(2) => {
            let caller = worker.caller.clone();
            let over = async { while !holding.over_within(&caller, LONG).await {} };
            return worker.be_rude(&name, over).await;
        }
        _ => {}
    }
    let mut left = worker.hold_for(holding.ttl);
    loop {
        if !worker.step(&name, || holding.is_valid()).await? {
            break;
        }
        if worker.rng.chance(35) {
            let server = worker.rng.index(worker.caller.servers());
            match worker.caller.renew(&holding.lease, server).await {
                Some(Ok(valid_until)) => holding.extend(valid_until),
                Some(Err(lost)) => holding.lose(&worker.caller, lost),
                None => {}
            }
        }
        let part = left.min(Duration::from_millis(100));
        if holding.over_within(&worker.caller, part).await || part.is_zero() {
            break;
        }
        left -= part;
        if left.is_zero() {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    if !holding.is_valid() {
        holding.run_out(&worker.caller);
    }
    // Also of what is lost: a release tells how it ended, and must not touch its successor.
    worker.give_back(holding).await;
    Ok(())
}
