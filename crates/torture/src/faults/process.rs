//! Processes that are killed, or stand still.

use super::{Effect, Kind, Scene};
use anyhow::Result;
use std::time::Duration;
use tokio::time::sleep;

/// How old the data is that an older copy brings back.
const OLDER_BY: Duration = Duration::from_millis(1_500);

pub(super) async fn redis(scene: &Scene<'_>) -> Result<Effect> {
    let (kind, hold) = (scene.event.kind, scene.event.hold);
    let redis = if kind == Kind::ReplicaKilled { scene.world.replica()? } else { scene.world.primary()? };
    if kind == Kind::RedisStopped {
        redis.pause().await?;
        sleep(hold).await;
        redis.resume().await?;
        return Ok(Effect::On(redis.name.clone()));
    }
    if kind == Kind::RedisOlder {
        redis.copy_data()?;
        sleep(OLDER_BY).await;
    }
    let before = redis.info("server", "run_id").await?;
    redis.kill().await?;
    match kind {
        Kind::RedisEmpty => redis.forget()?,
        Kind::RedisOlder => redis.put_copy_back()?,
        _ => {}
    }
    sleep(hold).await;
    redis.begin().await?;
    anyhow::ensure!(redis.info("server", "run_id").await? != before, "it is the same process");
    if kind == Kind::ReplicaKilled
        && let Some(link) = &scene.world.replication
    {
        crate::topology::follow(redis, link).await?;
    }
    Ok(Effect::On(redis.name.clone()))
}

pub(super) async fn server(scene: &Scene<'_>) -> Result<Effect> {
    let servers = &scene.world.servers;
    let server = &servers[scene.event.target % servers.len()];
    match scene.event.kind {
        Kind::ServerStopped => {
            server.pause().await?;
            sleep(scene.event.hold).await;
            server.resume().await?;
        }
        Kind::ServerDrained => {
            server.drain().await?;
            server.begin().await?;
        }
        _ => {
            server.kill().await?;
            sleep(scene.event.hold).await;
            server.begin().await?;
        }
    }
    Ok(Effect::On(format!("server {}", server.index)))
}

pub(super) async fn client(scene: &Scene<'_>) -> Result<Effect> {
    let client = scene.clients.at(scene.event.target);
    let target = client.target();
    if scene.event.kind == Kind::ClientStopped {
        client.pause().await?;
        sleep(scene.event.hold).await;
        client.resume().await?;
    } else {
        client.kill().await?;
        sleep(scene.event.hold).await;
        client.begin().await?;
    }
    Ok(Effect::On(target))
}
