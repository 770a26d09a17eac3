//! Links that hold bytes back, delay them, lose them, or break.

use super::{Effect, Kind, Scene};
use crate::{
    proxy::{Link, Mode, Way},
    rng::Rng,
};
use anyhow::{Context, Result};
use std::time::Duration;
use tokio::time::sleep;

pub(super) async fn client(scene: &Scene<'_>) -> Result<Effect> {
    let servers = &scene.world.servers;
    inflict(scene, &servers[scene.event.target % servers.len()].link).await
}

pub(super) async fn store(scene: &Scene<'_>) -> Result<Effect> {
    let links = &scene.world.store_links;
    inflict(scene, &links[scene.event.target % links.len()]).await
}

pub(super) async fn replica(scene: &Scene<'_>) -> Result<Effect> {
    inflict(scene, scene.world.replication.as_ref().context("no replica here")?).await
}

async fn inflict(scene: &Scene<'_>, link: &Link) -> Result<Effect> {
    let before = link.touched();
    let mode = mode(scene);
    if scene.event.kind.is_reset() {
        leave_under_way(scene, link).await;
        link.reset();
        // Some who come back at once are sent away.
        link.set(Mode { refuse: true, ..Mode::default() });
        sleep(scene.event.hold / 4).await;
    } else {
        link.set(mode);
        sleep(scene.event.hold).await;
    }
    link.heal();
    Ok(if link.touched() > before {
        Effect::On(link.name.clone())
    } else {
        Effect::Missed(format!("{}: nobody there", link.name))
    })
}

/// Holds the link for a moment before it breaks, so that commands are under way. Redis answers most in a millisecond.
async fn leave_under_way(scene: &Scene<'_>, link: &Link) {
    let mut rng = Rng::new(scene.event.draw, 2);
    if scene.event.kind == Kind::StoreLinkReset && rng.chance(70) {
        // Redis executes the commands and its answers are lost, or the commands are lost.
        let forth = if rng.chance(50) { Way::Hold } else { Way::Pass };
        link.set(Mode { forth, back: Way::Hold, ..Mode::default() });
        sleep(rng.millis(20, 300)).await;
    }
}

fn mode(scene: &Scene<'_>) -> Mode {
    use Kind::*;
    let whole = Mode::default();
    match scene.event.kind {
        ClientLinkHeld | StoreLinkHeld | ReplicaLinkHeld => Mode { forth: Way::Hold, back: Way::Hold, ..whole },
        // What was asked is done, and its answers come late.
        ClientLinkHeldBack | StoreLinkHeldBack => Mode { back: Way::Hold, ..whole },
        ClientLinkDelayed | StoreLinkDelayed | ReplicaLinkDelayed => {
            let mut rng = Rng::new(scene.event.draw, 1);
            let way = Way::Delay(rng.millis(20, 700));
            if rng.chance(50) { Mode { forth: way, back: way, ..whole } } else { Mode { forth: way, ..whole } }
        }
        ClientLinkHalfOpen | StoreLinkHalfOpen => Mode { half_open: true, ..whole },
        ReplyDropped | StoreReplyDropped => Mode { back: Way::Discard, ..whole },
        _ => whole,
    }
}

impl Kind {
    fn is_reset(self) -> bool {
        matches!(self, Self::ClientLinkReset | Self::StoreLinkReset | Self::ReplicaLinkReset)
    }
}

/// For replication to fall behind by a little more than nothing.
pub(super) const LAG: Duration = Duration::from_millis(300);
