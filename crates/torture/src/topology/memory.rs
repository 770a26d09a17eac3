//! One server with the memory store, which forgets everything when its process ends.

use super::Deployment;
use crate::{config::Config, faults::FaultKind, server::Server};
use anyhow::Result;

pub(super) fn kinds() -> Vec<FaultKind> {
    use FaultKind::*;
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

pub(super) async fn build(config: &Config) -> Result<Deployment> {
    let server = Server::start(&config.server_bin, 0, "memory:", &config.folder, &[]).await?;
    Ok(Deployment::new(vec![server], Vec::new(), Vec::new()))
}
