//! What befalls a Redis that goes on running: its data, its scripts, its connections, its memory, its clock.

use super::{Effect, Kind, Scene};
use crate::{plan::Event, rng::Rng};
use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

pub(super) async fn inflict(scene: &Scene<'_>) -> Result<Effect> {
    let redis = scene.world.primary()?;
    let on = Effect::On(redis.name.clone());
    match scene.event.kind {
        Kind::FlushAll => {
            redis.ask(&["FLUSHALL"]).await?;
        }
        Kind::ScriptFlush => {
            let script = redis.ask(&["SCRIPT", "LOAD", "return 'torture'"]).await?.text();
            redis.ask(&["SCRIPT", "FLUSH"]).await?;
            let there = redis.ask(&["SCRIPT", "EXISTS", &script]).await?.list();
            ensure!(there.first().is_some_and(|there| there.int() == 0), "scripts are still there");
        }
        Kind::KillPubsub | Kind::KillNormal => {
            let what = if scene.event.kind == Kind::KillPubsub { "pubsub" } else { "normal" };
            if redis.ask(&["CLIENT", "KILL", "TYPE", what]).await?.int() < 1 {
                return Ok(Effect::Missed("no such connection".to_owned()));
            }
        }
        Kind::OutOfMemory => {
            redis.ask(&["CONFIG", "SET", "maxmemory", "1"]).await?;
            let refused = redis.ask(&["SET", "torture:probe", "1", "PX", "1000"]).await;
            sleep(scene.event.hold).await;
            redis.ask(&["CONFIG", "SET", "maxmemory", "0"]).await?;
            ensure!(refused.is_err_and(|error| format!("{error:#}").contains("OOM")), "it had memory left");
        }
        kind => {
            let seconds = seconds(scene.event);
            let by = if kind == Kind::ClockForward { seconds } else { -seconds };
            let before = redis_seconds(scene).await?;
            scene.world.wall.as_ref().context("no clock to set")?.step(by)?;
            let stepped = redis_seconds(scene).await? - before;
            ensure!((by..=by + 5).contains(&stepped), "the clock went by {stepped} s instead of {by} s");
            return Ok(Effect::On(format!("{} by {by} s", redis.name)));
        }
    }
    Ok(on)
}

/// By how many the clock is set.
pub(super) fn seconds(event: &Event) -> i64 {
    i64::try_from(Rng::new(event.draw, 1).below(30)).unwrap_or(0) + 1
}

async fn redis_seconds(scene: &Scene<'_>) -> Result<i64> {
    let redis = scene.world.primary()?;
    let time = match redis.ask(&["TIME"]).await {
        Ok(time) => time,
        // Another fault, which kills the connections of all clients, has met this one too.
        Err(_) => redis.ask(&["TIME"]).await?,
    };
    Ok(time.list().first().context("no time")?.text().parse()?)
}
