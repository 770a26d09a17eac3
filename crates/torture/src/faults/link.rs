//! Faults of links: held, delayed, lost bytes and resets.

use super::{FaultContext, FaultKind, FaultOutcome};
use crate::{
    proxy::{Flow, Link, Mode},
    rng::Rng,
};
use anyhow::{Context, Result};
use std::time::Duration;
use tokio::time::sleep;

pub(super) async fn client(context: &FaultContext<'_>) -> Result<FaultOutcome> {
    let servers = &context.deployment.servers;
    inject(context, &servers[context.fault.target % servers.len()].link).await
}

pub(super) async fn store(context: &FaultContext<'_>) -> Result<FaultOutcome> {
    inject(context, context.deployment.store_link(context.fault.target)).await
}

/// Holds the links of a server to all nodes but a minority.
pub(super) async fn cut_off(context: &FaultContext<'_>) -> Result<FaultOutcome> {
    let (deployment, target) = (context.deployment, context.fault.target);
    let (nodes, servers) = (deployment.redis.len(), deployment.servers.len());
    let (server, first) = (target % servers, target / servers);
    let of_server = &deployment.store_links[server * nodes..(server + 1) * nodes];
    let cut: Vec<_> = (first..=first + nodes / 2).map(|node| &of_server[node % nodes]).collect();
    let before: Vec<_> = cut.iter().map(|link| link.affected()).collect();
    cut.iter().for_each(|link| link.hold());
    sleep(context.fault.hold).await;
    cut.iter().for_each(|link| link.heal());
    Ok(if cut.iter().zip(before).all(|(link, before)| link.affected() > before) {
        FaultOutcome::Hit(cut.iter().map(|link| link.name.as_str()).collect::<Vec<_>>().join(", "))
    } else {
        FaultOutcome::Missed(format!("server {server}: no traffic"))
    })
}

pub(super) async fn replica(context: &FaultContext<'_>) -> Result<FaultOutcome> {
    inject(context, context.deployment.replication.as_ref().context("no replica here")?).await
}

async fn inject(context: &FaultContext<'_>, link: &Link) -> Result<FaultOutcome> {
    let before = link.affected();
    let mode = mode(context);
    if context.fault.kind.is_reset() {
        hold_commands_in_flight(context, link).await;
        link.reset();
        // Refuse some of the immediate reconnects.
        link.set(Mode { refuse: true, ..Mode::default() });
        sleep(context.fault.hold / 4).await;
    } else {
        link.set(mode);
        sleep(context.fault.hold).await;
    }
    link.heal();
    Ok(if link.affected() > before {
        FaultOutcome::Hit(link.name.clone())
    } else {
        FaultOutcome::Missed(format!("{}: no traffic", link.name))
    })
}

/// Holds the link before it breaks, so that commands are in flight. Redis answers most within a millisecond.
async fn hold_commands_in_flight(context: &FaultContext<'_>, link: &Link) {
    let mut rng = Rng::new(context.fault.draw, 2);
    if matches!(context.fault.kind, FaultKind::StoreLinkReset | FaultKind::NodeLinkReset) && rng.chance(70) {
        // Redis either executes the commands and its answers are lost, or does not receive them.
        let outbound = if rng.chance(50) { Flow::Hold } else { Flow::Pass };
        link.set(Mode { outbound, inbound: Flow::Hold, ..Mode::default() });
        sleep(rng.millis(20, 300)).await;
    }
}

fn mode(context: &FaultContext<'_>) -> Mode {
    use FaultKind::*;
    let whole = Mode::default();
    match context.fault.kind {
        ClientLinkHeld | StoreLinkHeld | NodeLinkHeld | ReplicaLinkHeld => {
            Mode { outbound: Flow::Hold, inbound: Flow::Hold, ..whole }
        }
        // What was sent before is answered.
        NodeLinkHeldForth => Mode { outbound: Flow::Hold, ..whole },
        // Requests are processed, and their answers arrive late.
        ClientLinkHeldBack | StoreLinkHeldBack | NodeLinkHeldBack => Mode { inbound: Flow::Hold, ..whole },
        ClientLinkDelayed | StoreLinkDelayed | NodeLinkDelayed | ReplicaLinkDelayed => {
            let mut rng = Rng::new(context.fault.draw, 1);
            let flow = Flow::Delay(rng.millis(20, 700));
            if rng.chance(50) {
                Mode { outbound: flow, inbound: flow, ..whole }
            } else {
                Mode { outbound: flow, ..whole }
            }
        }
        ClientLinkHalfOpen | StoreLinkHalfOpen | NodeLinkHalfOpen => Mode { half_open: true, ..whole },
        ReplyDropped | StoreReplyDropped | NodeReplyDropped => Mode { inbound: Flow::Discard, ..whole },
        _ => whole,
    }
}

impl FaultKind {
    fn is_reset(self) -> bool {
        matches!(self, Self::ClientLinkReset | Self::StoreLinkReset | Self::NodeLinkReset | Self::ReplicaLinkReset)
    }
}

/// How long to wait for replication to fall behind measurably.
pub(super) const LAG: Duration = Duration::from_millis(300);
