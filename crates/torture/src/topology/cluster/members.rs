//! The members of a Redis Cluster, and how they are made one.

use super::{NODE_TIMEOUT, PAIRS, PRIMARIES, view};
use crate::{clock, config::Config, redis::Redis, reroute::Reroute, wires::Wires};
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use tokio::time::sleep;

/// The slots of the first primaries. The first has the slot of the keys.
const RANGES: [[&str; 2]; PRIMARIES] = [["5461", "10922"], ["0", "5460"], ["10923", "16383"]];
/// How long members may take to hear of each other.
const JOIN_MAX: Duration = Duration::from_secs(30);

/// Starts the members, which do not know each other yet.
pub(super) async fn start(config: &Config, reroute: &Reroute) -> Result<Vec<Redis>> {
    let count = PRIMARIES + PAIRS;
    let mut wires = Vec::new();
    for name in (0..count).map(name) {
        wires.push(Wires::new(&name, &config.socket(&name), count).await?);
    }
    let led = |from: usize| wires.iter().map(move |it| (&it.announced_bus, &it.bus[from]));
    let envs: Vec<_> = (0..count).map(|from| reroute.env(led(from))).collect();
    let mut members = Vec::new();
    for (number, (wires, env)) in wires.into_iter().zip(envs).enumerate() {
        let args = format!(
            "--bind 127.0.0.1 --cluster-enabled yes --cluster-node-timeout {NODE_TIMEOUT} --cluster-announce-ip \
             127.0.0.1 --cluster-announce-port {} --cluster-announce-bus-port {} --repl-ping-replica-period 1 \
             --cluster-allow-replica-migration no",
            wires.port.port, wires.announced_bus.port
        );
        members.push(Redis::start_member(&name(number), &config.folder, &env, &args, wires).await?);
    }
    Ok(members)
}

fn name(member: usize) -> String {
    format!("member-{member}")
}

/// Makes them one cluster.
pub(super) async fn join(members: &[Redis]) -> Result<()> {
    let (first, others) = members.split_first().context("no members")?;
    for (number, (member, [from, to])) in members.iter().zip(RANGES).enumerate() {
        member.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]).await?;
        member.ask(&["CLUSTER", "ADDSLOTSRANGE", from, to]).await?;
    }
    for member in others {
        let Wires { port, announced_bus, .. } = member.wires.as_ref().context("no links to it")?;
        let (port, bus) = (port.port.to_string(), announced_bus.port.to_string());
        first.ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await?;
    }
    let bound = clock::now() + clock::nanos(JOIN_MAX);
    for member in members {
        while !view(member).await.is_some_and(|view| view.knows(members.len())) {
            ensure!(clock::now() < bound, "{} does not know all others", member.name);
            sleep(Duration::from_millis(10)).await;
        }
    }
    for (primary, replica) in members.iter().zip(&members[PRIMARIES..]) {
        let id = primary.ask(&["CLUSTER", "MYID"]).await?.text();
        replica.ask(&["CLUSTER", "REPLICATE", &id]).await?;
    }
    Ok(())
}
