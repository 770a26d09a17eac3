//! One replica of the server, and the link through which clients reach it.
//!
//! It listens on a port chosen by the system, a new one in each incarnation, so nobody else can take it. The link
//! follows.

use crate::{
    process::{Process, ProcessSpec},
    proxy::Link,
    pump::Upstream,
};
use anyhow::{Context, Result, bail};
use fencepost_proto::v1::{GetRequest, lock_service_client::LockServiceClient};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex as PlainMutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{sleep, timeout},
};
use tonic::transport::{Channel, Endpoint};

const START_MAX: Duration = Duration::from_secs(15);
/// How long a server may take to serve again after all faults are healed.
const SERVING_MAX: Duration = Duration::from_secs(12);

struct Incarnation {
    process: Process,
    port: u16,
}

pub(crate) struct Server {
    pub(crate) index: usize,
    /// The link through which clients reach it.
    pub(crate) link: Link,
    spec: ProcessSpec,
    folder: PathBuf,
    incarnation: Mutex<Option<Incarnation>>,
    logs: PlainMutex<Vec<PathBuf>>,
    crashed: PlainMutex<Vec<String>>,
}

fn locked<T>(mutex: &PlainMutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Starts a server on the store with this URL, and waits until it listens. `env` controls its connections.
    pub(crate) async fn start(
        bin: &Path,
        index: usize,
        store: &str,
        folder: &Path,
        env: &[(&'static str, PathBuf)],
    ) -> Result<Self> {
        let args = ["serve", "--listen=127.0.0.1:0", "--ttl-min=200ms", "--drain-timeout=2s"];
        let admin = ["--admin-listen=none", "--admin-service=everywhere"];
        let spec = ProcessSpec::new(bin)
            .args(args)
            .args(admin)
            .args(["--log-format=json".to_owned(), format!("--store={store}")]);
        let spec = spec.env(env);
        let link = Link::new(format!("client->server {index}")).await?;
        let (incarnation, logs, crashed) = (Mutex::new(None), PlainMutex::default(), PlainMutex::default());
        let server = Self { index, link, spec, folder: folder.to_owned(), incarnation, logs, crashed };
        server.ensure_running().await?;
        Ok(server)
    }

    /// Starts it, unless it runs.
    pub(crate) async fn ensure_running(&self) -> Result<()> {
        let mut incarnation = self.incarnation.lock().await;
        if incarnation.is_some() {
            return Ok(());
        }
        let log = self.folder.join(format!("server-{}-{}.log", self.index, locked(&self.logs).len()));
        let mut process = self.spec.start(&log)?;
        locked(&self.logs).push(log.clone());
        let listening = async {
            loop {
                if let Some(port) = std::fs::read_to_string(&log).ok().and_then(|text| port_in(&text)) {
                    return Ok(port);
                }
                if let Some(status) = process.ended() {
                    bail!("the server ended: {status}: {}", std::fs::read_to_string(&log).unwrap_or_default());
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        let port = timeout(START_MAX, listening).await.context("the server does not listen")??;
        self.link.route_to(Upstream::Tcp(port));
        *incarnation = Some(Incarnation { process, port });
        Ok(())
    }

    /// Sends SIGKILL.
    pub(crate) async fn kill(&self) -> Result<()> {
        self.take().await?.process.kill().await
    }

    /// Sends SIGTERM, and waits until it has ended.
    pub(crate) async fn drain(&self) -> Result<()> {
        let status = self.take().await?.process.terminate(Duration::from_secs(8)).await?;
        if !status.success() {
            locked(&self.crashed).push(format!("server {} on SIGTERM: {status}", self.index));
        }
        Ok(())
    }

    async fn take(&self) -> Result<Incarnation> {
        let mut incarnation =
            self.incarnation.lock().await.take().with_context(|| format!("server {} is down", self.index))?;
        if let Some(status) = incarnation.process.ended() {
            locked(&self.crashed).push(format!("server {} by itself: {status}", self.index));
            bail!("server {} had ended by itself: {status}", self.index);
        }
        Ok(incarnation)
    }

    pub(crate) async fn pause(&self) -> Result<()> {
        self.incarnation.lock().await.as_mut().context("the server is down")?.process.pause().await
    }

    pub(crate) async fn resume(&self) -> Result<()> {
        self.incarnation.lock().await.as_mut().context("the server is down")?.process.resume()
    }

    /// A direct channel, without a proxy.
    pub(crate) async fn direct(&self) -> Result<Channel> {
        let port =
            self.incarnation.lock().await.as_ref().with_context(|| format!("server {} is down", self.index))?.port;
        channel(port)
    }

    /// Waits until it answers from its store. What Redis and a server lost at the same time stays unavailable for as
    /// long as their clocks are apart, so that tokens rise.
    pub(crate) async fn wait_until_serving(&self, clocks_apart: Duration) -> Result<()> {
        let answers = async {
            while self.answers().await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(SERVING_MAX + clocks_apart, answers)
            .await
            .with_context(|| format!("server {} does not serve again", self.index))
    }

    async fn answers(&self) -> Result<()> {
        let mut client = LockServiceClient::new(self.direct().await?);
        let get = client.get(GetRequest { lock_name: "probe".to_owned() });
        timeout(Duration::from_millis(500), get).await??;
        Ok(())
    }

    /// Unexpected ends of its process.
    pub(crate) async fn crashes(&self) -> Vec<String> {
        if let Some(status) = self.incarnation.lock().await.as_mut().and_then(|incarnation| incarnation.process.ended())
        {
            locked(&self.crashed).push(format!("server {} by itself: {status}", self.index));
        }
        locked(&self.crashed).clone()
    }

    /// Errors in its logs that no fault explains.
    pub(crate) fn log_errors(&self) -> Vec<String> {
        // The out-of-memory fault makes the server report that Redis is out of memory.
        let is_explained = |line: &str| line.contains("\"check\":\"memory\"");
        let is_error = |line: &str| line.contains("\"level\":\"ERROR\"") && !is_explained(line);
        let is_bad = |line: &&str| is_error(line) || line.contains("panicked");
        let logs = locked(&self.logs).clone();
        let texts = logs.iter().filter_map(|log| std::fs::read_to_string(log).ok());
        texts.flat_map(|text| text.lines().filter(is_bad).map(str::to_owned).collect::<Vec<_>>()).collect()
    }
}

/// A channel to this local port. Connects on first use.
pub(crate) fn channel(port: u16) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?;
    let endpoint = endpoint.connect_timeout(Duration::from_secs(1)).tcp_nodelay(true);
    // Histories are short: detect dead connections soon.
    let endpoint =
        endpoint.http2_keep_alive_interval(Duration::from_secs(1)).keep_alive_timeout(Duration::from_secs(1));
    Ok(endpoint.keep_alive_while_idle(true).connect_lazy())
}

fn port_in(log: &str) -> Option<u16> {
    let line = log.split_inclusive('\n').find(|line| line.contains("listening") && line.ends_with('\n'))?;
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    line["addr"].as_str()?.rsplit(':').next()?.parse().ok()
}
