//! Servers that keep the locks in a majority of several Redis, the nodes. All name the nodes by the same addresses; a
//! server that connects there is led to its own link to the node.

use super::Deployment;
use crate::{
    clock,
    config::Config,
    faults::FaultKind,
    process::ProcessSpec,
    proxy::{Link, Mode},
    pump::Upstream,
    redis::Redis,
    reroute::Reroute,
    server::Server,
};
use anyhow::{Context, Result, ensure};
use fencepost_torture::nodes::Voting;
use serde::Deserialize;
use std::{
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};
use tokio::{io::AsyncReadExt, sync::Mutex, time::sleep};

/// The number of servers.
pub(super) const SERVERS: usize = 3;
/// The number of nodes: three or five.
const NODES: usize = 3;

/// How long an operator's command may take.
const COMMAND_MAX: Duration = Duration::from_secs(10);
/// How long a server may take to bring a node up to date, once the node is there. The server may be down or stopped
/// meanwhile, for a fault of its own.
const ADMISSION_MAX: Duration = Duration::from_secs(15);
const ADMISSION_PERIOD: Duration = Duration::from_millis(200);

pub(super) fn kinds() -> Vec<FaultKind> {
    use FaultKind::*;
    vec![
        NodeKilled,
        NodeEmpty,
        NodeOlder,
        NodeStopped,
        NodeFlushed,
        NodeScriptFlush,
        NodeKillNormal,
        NodeOutOfMemory,
        NodeRenamed,
        NodeLinkHeld,
        NodeLinkHeldForth,
        NodeLinkHeldBack,
        NodeLinkDelayed,
        NodeLinkReset,
        NodeLinkHalfOpen,
        NodeReplyDropped,
        ServerCutOff,
        ServerKilled,
        ServerStopped,
        ServerStalled,
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
    let reroute = Reroute::new(&config.folder)?;
    let mut deployment = Deployment::new(Vec::new(), Vec::new(), Vec::new());
    for node in 0..NODES {
        deployment.redis.push(Redis::start(&format!("node-{node}"), &config.folder, &[]).await?);
    }
    let quorum = Quorum::create(config, &deployment.redis).await?;
    for index in 0..config.topology.servers(config.seed) {
        let links = links(&format!("server {index}"), &deployment.redis).await?;
        let env = reroute.env(quorum.links.iter().zip(&links));
        deployment.store_links.extend(links);
        let server = Server::start(&config.server_bin, index, &quorum.store, &config.folder, &env).await?;
        deployment.servers.push(server);
    }
    deployment.quorum = Some(quorum);
    Ok(deployment)
}

/// A link to each node.
async fn links(from: &str, nodes: &[Redis]) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for node in nodes {
        let link = Link::new(format!("{from}->{}", node.name)).await?;
        link.route_to(Upstream::Unix(node.socket.clone()));
        links.push(link);
    }
    Ok(links)
}

/// The store, as its operator sees it.
pub(crate) struct Quorum {
    pub(crate) partitions: u16,
    store: String,
    /// The addresses of the nodes. Only the operator's commands reach a node there.
    links: Vec<Link>,
    bin: PathBuf,
    log: PathBuf,
    /// One command at a time.
    busy: Mutex<()>,
}

/// What `fencepost quorum status` says.
#[derive(Debug, Deserialize)]
struct Status {
    partitions: u16,
    nodes: Vec<NodeStatus>,
}

#[derive(Debug, Deserialize)]
struct NodeStatus {
    votes: u16,
    error: Option<String>,
}

impl Quorum {
    async fn create(config: &Config, nodes: &[Redis]) -> Result<Self> {
        let links = links("operator", nodes).await?;
        let urls: Vec<_> = links.iter().map(|link| format!("redis://127.0.0.1:{}", link.port)).collect();
        let log = config.folder.join("operator.log");
        let (bin, busy) = (config.server_bin.clone(), Mutex::default());
        let mut quorum = Self { partitions: 0, store: urls.join(","), links, bin, log, busy };
        let (status, printed) = quorum.command("create", &[]).await?;
        ensure!(status.success(), "quorum create: {status}: {printed}");
        let status = quorum.status().await?;
        if let Some(missing) = status.missing() {
            anyhow::bail!("the new store is not complete: {missing}");
        }
        quorum.partitions = status.partitions;
        Ok(quorum)
    }

    /// Waits until all nodes vote in all partitions, after this fault was healed.
    pub(crate) async fn until_all_vote(&self, fault: &str) -> Result<Voting> {
        let healed = clock::now();
        let bound = healed + clock::nanos(ADMISSION_MAX);
        loop {
            // The first question may meet a node that is not there yet.
            let missing =
                self.status().await.map_or_else(|error| Some(format!("{error:#}")), |status| status.missing());
            let at = clock::now();
            if missing.is_none() || at > bound {
                return Ok(Voting { fault: fault.to_owned(), healed, at, missing });
            }
            sleep(ADMISSION_PERIOD).await;
        }
    }

    async fn status(&self) -> Result<Status> {
        let (status, printed) = self.command("status", &["--json"]).await?;
        serde_json::from_str(&printed).with_context(|| format!("quorum status: {status}: {printed}"))
    }

    async fn command(&self, what: &str, more: &[&str]) -> Result<(ExitStatus, String)> {
        let _busy = self.busy.lock().await;
        self.links.iter().for_each(|link| link.set(Mode::default()));
        let ended = command(&self.bin, &self.log, &["quorum", what, "--store", &self.store], more).await;
        for link in &self.links {
            // A server that is not led to its own links does not get far.
            link.set(Mode { refuse: true, ..Mode::default() });
            link.reset();
        }
        ended
    }
}

async fn command(bin: &Path, log: &Path, args: &[&str], more: &[&str]) -> Result<(ExitStatus, String)> {
    let spec = ProcessSpec::new(bin).args(args).args(more);
    let (mut process, _input, mut output) = spec.start_piped(log)?;
    let mut printed = String::new();
    let read = tokio::time::timeout(COMMAND_MAX, output.read_to_string(&mut printed)).await;
    read.with_context(|| format!("{} does not end", args.join(" ")))??;
    Ok((process.finish(COMMAND_MAX).await?, printed))
}

impl Status {
    /// Which nodes do not vote in all partitions.
    fn missing(&self) -> Option<String> {
        let lacks = |(node, status): (usize, &NodeStatus)| {
            let error = status.error.as_deref().unwrap_or_default();
            let is_whole = status.votes == self.partitions && status.error.is_none();
            (!is_whole).then(|| format!("node-{node} votes in {} of {}: {error}", status.votes, self.partitions))
        };
        let missing: Vec<_> = self.nodes.iter().enumerate().filter_map(lacks).collect();
        (self.nodes.len() != NODES || !missing.is_empty()).then(|| missing.join("; "))
    }
}
