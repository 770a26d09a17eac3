//! Faults of a running Redis: its data, scripts, connections, memory and clock.

use super::{FaultContext, FaultKind, FaultOutcome};
use crate::{plan::PlannedFault, redis::Redis, rng::Rng};
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use tokio::time::sleep;

pub(super) async fn inject(context: &FaultContext<'_>) -> Result<FaultOutcome> {
    let redis = context.deployment.primary()?;
    match context.fault.kind {
        FaultKind::FlushAll => {
            redis.ask(&["FLUSHALL"]).await?;
        }
        FaultKind::ScriptFlush => {
            forget_scripts(redis).await?;
        }
        FaultKind::KillPubsub => return kill_connections(redis, "pubsub").await,
        FaultKind::KillNormal => return kill_connections(redis, "normal").await,
        FaultKind::OutOfMemory => be_full(redis, context.fault.hold).await?,
        kind => {
            let seconds = seconds(context.fault);
            let by = if kind == FaultKind::ClockForward { seconds } else { -seconds };
            let before = redis_seconds(context).await?;
            context.deployment.wall.as_ref().context("no clock to set")?.step(by)?;
            let stepped = redis_seconds(context).await? - before;
            ensure!((by..=by + 5).contains(&stepped), "the clock moved by {stepped} s instead of {by} s");
            return Ok(FaultOutcome::Hit(format!("{} by {by} s", redis.name)));
        }
    }
    Ok(FaultOutcome::Hit(redis.name.clone()))
}

pub(super) async fn forget_scripts(redis: &Redis) -> Result<()> {
    let script = redis.ask(&["SCRIPT", "LOAD", "return 'torture'"]).await?.text();
    redis.ask(&["SCRIPT", "FLUSH"]).await?;
    let there = redis.ask(&["SCRIPT", "EXISTS", &script]).await?.list();
    ensure!(there.first().is_some_and(|there| there.int() == 0), "the script still exists");
    Ok(())
}

pub(super) async fn kill_connections(redis: &Redis, which: &str) -> Result<FaultOutcome> {
    Ok(if redis.ask(&["CLIENT", "KILL", "TYPE", which]).await?.int() < 1 {
        FaultOutcome::Missed("no such connection".to_owned())
    } else {
        FaultOutcome::Hit(redis.name.clone())
    })
}

/// Refuses writes for this time, as if its memory were full.
pub(super) async fn be_full(redis: &Redis, hold: Duration) -> Result<()> {
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]).await?;
    // A key with the tag of all keys: in a cluster, one primary has it.
    let refused = redis.ask(&["SET", "{fp}torture", "1", "PX", "1000"]).await;
    sleep(hold).await;
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]).await?;
    ensure!(refused.is_err_and(|error| format!("{error:#}").contains("OOM")), "a write succeeded at maxmemory");
    Ok(())
}

/// By how many seconds the clock is set.
pub(super) fn seconds(fault: &PlannedFault) -> i64 {
    i64::try_from(Rng::new(fault.draw, 1).below(30)).unwrap_or(0) + 1
}

async fn redis_seconds(context: &FaultContext<'_>) -> Result<i64> {
    let redis = context.deployment.primary()?;
    let time = match redis.ask(&["TIME"]).await {
        Ok(time) => time,
        // A concurrent fault that kills all client connections has hit this one too.
        Err(_) => redis.ask(&["TIME"]).await?,
    };
    Ok(time.list().first().context("no time")?.text().parse()?)
}
