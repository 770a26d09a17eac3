//! Killed and stopped processes.

use super::{FaultContext, FaultKind, FaultOutcome};
use crate::redis::Redis;
use anyhow::Result;
use std::time::Duration;
use tokio::time::sleep;

/// The age of the data that a restored copy has.
const OLDER_BY: Duration = Duration::from_millis(1_500);

/// What a Redis has of its data after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    Kept,
    Gone,
    Older,
}

/// Kills it, and starts it again.
pub(super) async fn restart(redis: &Redis, data: Data, hold: Duration) -> Result<()> {
    if data == Data::Older {
        redis.copy_data()?;
        sleep(OLDER_BY).await;
    }
    let before = redis.info("server", "run_id").await?;
    redis.kill().await?;
    match data {
        Data::Kept => {}
        Data::Gone => redis.delete_data()?,
        Data::Older => redis.restore_copy()?,
    }
    sleep(hold).await;
    redis.ensure_running().await?;
    anyhow::ensure!(redis.info("server", "run_id").await? != before, "Redis did not restart");
    Ok(())
}

/// Stops it for this time.
pub(super) async fn stop(redis: &Redis, hold: Duration) -> Result<()> {
    redis.pause().await?;
    sleep(hold).await;
    redis.resume().await
}

pub(super) async fn redis(context: &FaultContext<'_>) -> Result<FaultOutcome> {
    let (kind, hold) = (context.fault.kind, context.fault.hold);
    let redis =
        if kind == FaultKind::ReplicaKilled { context.deployment.replica()? } else { context.deployment.primary()? };
    if kind == FaultKind::RedisStopped {
        stop(redis, hold).await?;
        return Ok(FaultOutcome::Hit(redis.name.clone()));
    }
    let data = match kind {
        FaultKind::RedisEmpty => Data::Gone,
        FaultKind::RedisOlder => Data::Older,
        _ => Data::Kept,
    };
    restart(redis, data, hold).await?;
    if kind == FaultKind::ReplicaKilled
        && let Some(link) = &context.deployment.replication
    {
        crate::topology::follow(redis, link).await?;
    }
    Ok(FaultOutcome::Hit(redis.name.clone()))
}

pub(super) async fn server(context: &FaultContext<'_>) -> Result<FaultOutcome> {
    let servers = &context.deployment.servers;
    let server = &servers[context.fault.target % servers.len()];
    match context.fault.kind {
        FaultKind::ServerStopped | FaultKind::ServerStalled => {
            server.pause().await?;
            sleep(context.fault.hold).await;
            server.resume().await?;
        }
        FaultKind::ServerDrained => {
            server.drain().await?;
            server.ensure_running().await?;
        }
        _ => {
            server.kill().await?;
            sleep(context.fault.hold).await;
            server.ensure_running().await?;
        }
    }
    Ok(FaultOutcome::Hit(format!("server {}", server.index)))
}

pub(super) async fn client(context: &FaultContext<'_>) -> Result<FaultOutcome> {
    let client = context.clients.at(context.fault.target);
    let target = client.target();
    if context.fault.kind == FaultKind::ClientStopped {
        client.pause().await?;
        sleep(context.fault.hold).await;
        client.resume().await?;
    } else {
        client.kill().await?;
        sleep(context.fault.hold).await;
        client.start_next().await?;
    }
    Ok(FaultOutcome::Hit(target))
}
