//! The replica is promoted and the servers are sent to it; the old primary, when it is back, follows it and loses what
//! it had of its own. Without lag little or nothing is lost; behind a link that holds everything back, seconds are.

use super::{Effect, Kind, Scene, link::LAG};
use crate::{
    proxy::{Mode, Way},
    topology::follow,
};
use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

pub(super) async fn inflict(scene: &Scene<'_>) -> Result<Effect> {
    let world = scene.world;
    let link = world.replication.as_ref().context("no replica here")?;
    let (old, new) = (world.primary()?, world.replica()?);
    let offset = async || -> Result<i64> { Ok(new.info("replication", "slave_repl_offset").await?.parse()?) };
    let mut lost = 0;
    if scene.event.kind == Kind::PromotionLagging {
        link.set(Mode { forth: Way::Hold, back: Way::Hold, ..Mode::default() });
        sleep(LAG + scene.event.hold).await;
        let written: i64 = old.info("replication", "master_repl_offset").await?.parse()?;
        lost = written - offset().await?;
    }
    old.kill().await?;
    new.ask(&["REPLICAOF", "NO", "ONE"]).await?;
    ensure!(new.info("replication", "role").await? == "master", "it was not promoted");
    world.change_places()?;
    link.heal();
    sleep(scene.event.hold / 4).await;
    old.begin().await?;
    follow(old, link).await?;
    let target = format!("{} instead of {}, {lost} bytes behind", new.name, old.name);
    if scene.event.kind == Kind::PromotionLagging && lost == 0 {
        return Ok(Effect::Missed("nothing was behind".to_owned()));
    }
    Ok(Effect::On(target))
}
