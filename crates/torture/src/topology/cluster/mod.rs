//! Two or three servers on a Redis Cluster. All keys are in one slot, whose primary is the one node.
//!
//! Five members are the fewest with which the primary can fail and the slot can move: three primaries with slots, of
//! which two elect a replica when the third fails, and a replica of each primary that has the slot in turn.

mod members;
mod view;

use super::{Deployment, redis};
use crate::{
    clock, config::Config, faults::FaultKind, proxy::Link, pump::Upstream, redis::Redis, reroute::Reroute,
    server::Server, wires::Wires,
};
use anyhow::{Context, Result, ensure};
use fencepost_torture::history::{Fault, Guarantees, Nanos, Record};
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use tokio::time::{sleep, timeout};
use view::View;

/// The slot of `{fp}`.
pub(crate) const SLOT: u16 = 7_963;
/// The primaries at the start; the first of them has the slot.
const PRIMARIES: usize = 3;
/// The first two have a replica.
const PAIRS: usize = 2;
/// How long a member may be silent before others take it for down. Shorter, and a busy machine causes failovers.
const NODE_TIMEOUT: &str = "1500";
/// What an election takes, usually: the silence, the word of it, and the delay of the candidate.
pub(crate) const ELECTION: Duration = Duration::from_millis(3_000);
/// How long a promotion may take. An election that fails is repeated after six seconds.
const PROMOTION_MAX: Duration = Duration::from_secs(20);
/// How long members may take to know and follow each other again.
const WHOLE_MAX: Duration = Duration::from_secs(30);
const PERIOD: Duration = Duration::from_millis(50);
/// A member that is stopped does not answer.
const ANSWER_MAX: Duration = Duration::from_millis(500);

pub(super) fn kinds() -> Vec<FaultKind> {
    use FaultKind::*;
    let mut kinds = redis::kinds();
    // Members judge each other's silence by their wall clocks; and what is done to one Redis is done to the primary.
    kinds.retain(|kind| {
        !matches!(kind, RedisKilled | RedisEmpty | RedisOlder | RedisStopped | ClockForward | ClockBack)
    });
    kinds.extend([PrimaryKilled, PrimaryStopped, PrimaryCutOff, FailoverByHand, SlotMoved, ReplicaKilled]);
    kinds
}

pub(super) async fn build(config: &Config) -> Result<Deployment> {
    let reroute = Reroute::new(&config.folder)?;
    let mut deployment = Deployment::new(Vec::new(), Vec::new(), members::start(config, &reroute).await?);
    let cluster = Cluster { seen: AtomicU64::new(clock::now()) };
    members::join(&deployment.redis).await?;
    until_whole(&deployment).await?;
    let ports: Vec<&Link> = deployment.redis.iter().filter_map(|it| Some(&it.wires.as_ref()?.port)).collect();
    let named: Vec<_> = ports[..PRIMARIES].iter().map(|link| format!("127.0.0.1:{}", link.port)).collect();
    let store = format!("redis+cluster://{}", named.join(","));
    let (mut servers, mut store_links) = (Vec::new(), Vec::new());
    for index in 0..config.topology.servers(config.seed) {
        let mut links = Vec::new();
        for member in &deployment.redis {
            let link = Link::new(format!("server {index}->{}", member.name)).await?;
            link.route_to(Upstream::Unix(member.socket.clone()));
            links.push(link);
        }
        let env = reroute.env(ports.iter().copied().zip(&links));
        servers.push(Server::start(&config.server_bin, index, &store, &config.folder, &env).await?);
        store_links.extend(links);
    }
    (deployment.servers, deployment.store_links) = (servers, store_links);
    deployment.cluster = Some(cluster);
    Ok(deployment)
}

/// The other member of the pair: the replica of this primary, or its primary. The last primary has none.
pub(crate) fn partner(member: usize) -> Option<usize> {
    if member < PRIMARIES { (member < PAIRS).then_some(member + PRIMARIES) } else { Some(member - PRIMARIES) }
}

/// What the members of a Redis Cluster say of it.
pub(crate) struct Cluster {
    /// When the primary of the slot was last seen to be the known one.
    seen: AtomicU64,
}

impl Cluster {
    /// Looks whether the slot still has the primary that the last fault left. A busy machine may cause a failover that
    /// no fault asked for; then that is recorded as one.
    pub(crate) async fn unasked_failover(&self, deployment: &Deployment) -> Result<Option<Record>> {
        let mut claims = Vec::new();
        for (number, member) in deployment.redis.iter().enumerate() {
            claims.extend(view(member).await.and_then(|view| Some((view.claim()?, number))));
        }
        let (_, present) = claims.into_iter().max().context("no member has the slot")?;
        let (known, now) = (deployment.primary_number(), clock::now());
        let begin: Nanos = self.seen.swap(now, Ordering::Relaxed);
        if present == known {
            return Ok(None);
        }
        deployment.set_primary(present);
        let target = format!("{} instead of {}", deployment.redis[present].name, deployment.redis[known].name);
        let (kind, guarantees) = ("failover-unasked".to_owned(), Guarantees::NotMemory);
        Ok(Some(Record::Fault(Fault { kind, target, begin, end: now, guarantees })))
    }
}

/// Waits until this member is the primary of the slot, and serves it. False if it is not in time.
pub(crate) async fn is_promoted(member: &Redis) -> bool {
    let promoted = async {
        while !view(member).await.is_some_and(|view| view.serves()) {
            sleep(PERIOD).await;
        }
    };
    timeout(PROMOTION_MAX, promoted).await.is_ok()
}

/// The primary of the pair that does not have the slot.
pub(crate) async fn other_primary(deployment: &Deployment) -> Result<usize> {
    let primary = deployment.primary_number();
    for member in (0..PAIRS).flat_map(|first| [first, first + PRIMARIES]) {
        let is_other = member != primary && Some(member) != partner(primary);
        if is_other && view(&deployment.redis[member]).await.is_some_and(|view| view.is_primary()) {
            return Ok(member);
        }
    }
    anyhow::bail!("no other pair has a primary")
}

/// Waits until all members agree, and the replicas follow: the next fault needs a replica to promote.
pub(crate) async fn until_whole(deployment: &Deployment) -> Result<()> {
    let bound = clock::now() + clock::nanos(WHOLE_MAX);
    loop {
        let Some(missing) = missing(deployment).await else { return Ok(()) };
        ensure!(clock::now() < bound, "the cluster is not whole again: {missing}");
        sleep(PERIOD).await;
    }
}

/// What a member says, if it answers.
async fn view(member: &Redis) -> Option<View> {
    let commands: [&[&str]; 3] = [&["CLUSTER", "INFO"], &["CLUSTER", "NODES"], &["INFO", "replication"]];
    let answers = timeout(ANSWER_MAX, member.ask_all(&commands)).await.ok()?.ok()?;
    let [info, nodes, replication] = &answers[..] else { return None };
    View::read(&info.text(), &nodes.text(), &replication.text())
}

/// What keeps the cluster from being whole.
async fn missing(deployment: &Deployment) -> Option<String> {
    let (mut primaries, mut named) = (0, BTreeSet::new());
    for member in &deployment.redis {
        let Some(view) = view(member).await.filter(|view| view.is_whole(deployment.redis.len())) else {
            return Some(format!("{} does not see it whole", member.name));
        };
        primaries += usize::from(view.is_primary());
        named.insert(view.named().map(str::to_owned));
    }
    (primaries != PRIMARIES || named.len() != 1).then(|| format!("{primaries} primaries, of the slot: {named:?}"))
}

/// Cuts a member off from all others, which servers still reach, and joins it again.
pub(crate) fn cut_off(deployment: &Deployment, member: usize, is_cut: bool) {
    for (number, other) in deployment.redis.iter().enumerate() {
        let Some(wires) = &other.wires else { continue };
        let Wires { port, bus, .. } = wires;
        let touched = bus.iter().enumerate().filter(|(from, _)| number == member || *from == member);
        let touched = touched.map(|(_, link)| link).chain((number == member).then_some(port));
        touched.for_each(|link| if is_cut { link.hold() } else { link.heal() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_primary_that_has_the_slot_in_turn_has_a_replica() {
        let partners: Vec<_> = (0..PRIMARIES + PAIRS).map(partner).collect();
        assert_eq!(partners, [Some(3), Some(4), None, Some(0), Some(1)]);
    }
}
