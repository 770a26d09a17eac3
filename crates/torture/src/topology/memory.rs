//! One server that keeps its state in memory. When its process ends it has forgotten all of it.

use super::World;
use crate::{config::Config, faults::Kind, server::Server};
use anyhow::Result;

pub(super) fn kinds() -> Vec<Kind> {
    use Kind::*;
    vec![
        ServerKilled,
        ServerStopped,
        ServerDrained,
        ClientKilled,
        ClientStopped,
        ClientLinkHeld,
        ClientLinkHeldBack,
        ClientLinkDelayed,
        ClientLinkReset,
        ClientLinkHalfOpen,
        ReplyDropped,
        ForceRelease,
    ]
}

pub(super) async fn build(config: &Config) -> Result<World> {
    let server = Server::start(&config.server_bin, 0, "memory:", &config.folder).await?;
    Ok(World::new(vec![server], Vec::new(), Vec::new()))
}
