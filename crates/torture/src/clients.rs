//! The client processes of a history: starts them, injects their faults, collects their journals.

use crate::{
    client::{self, ClientKind, ClientOptions},
    clock,
    config::Config,
    journal,
    process::{Process, ProcessSpec},
};
use anyhow::{Context, Result, ensure};
use fencepost_torture::history::{Nanos, Record};
use std::{
    path::PathBuf,
    sync::{Mutex as PlainMutex, PoisonError},
    time::Duration,
};
use tokio::sync::Mutex;

/// Longer than any client takes to stop.
const FINISH_MAX: Duration = Duration::from_secs(9);

struct Incarnation {
    journal: PathBuf,
    ended: Option<Nanos>,
}

/// One client and its incarnations.
pub(crate) struct Client {
    options: ClientOptions,
    process: Mutex<Option<Process>>,
    incarnations: PlainMutex<Vec<Incarnation>>,
}

/// All clients.
pub(crate) struct Clients(Vec<Client>);

impl Clients {
    /// Starts all clients. `servers` are the ports of the servers' links.
    pub(crate) async fn start(config: &Config, servers: &[u16]) -> Result<Self> {
        client::is_set_up()?;
        let mut all = Vec::new();
        for (number, kind) in ClientKind::ALL.into_iter().enumerate() {
            let options = ClientOptions {
                kind,
                number: u32::try_from(number)?,
                incarnation: 0,
                seed: config.seed,
                servers: servers.to_vec(),
                stores: config.socket("stores"),
                folder: config.folder.clone(),
            };
            let client = Client { options, process: Mutex::default(), incarnations: PlainMutex::default() };
            client.start_next().await?;
            all.push(client);
        }
        Ok(Self(all))
    }

    pub(crate) fn at(&self, target: usize) -> &Client {
        &self.0[target % self.0.len()]
    }

    /// Tells all clients to stop, and waits for them.
    pub(crate) async fn finish(&self) -> Result<()> {
        for client in &self.0 {
            // All at once, since each may take a while.
            if let Some(process) = client.process.lock().await.as_mut() {
                process.close_input();
            }
        }
        for client in &self.0 {
            let mut process = client.process.lock().await.take().context("a client is down")?;
            let status = process.finish(FINISH_MAX).await.with_context(|| client.name())?;
            client.ended();
            ensure!(status.success(), "{} ended with {status}: see {}", client.name(), client.options.log().display());
        }
        Ok(())
    }

    /// The records of all clients.
    pub(crate) fn records(&self) -> Result<Vec<Record>> {
        let mut all = Vec::new();
        for client in &self.0 {
            for incarnation in client.incarnations.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                let ended = incarnation.ended.unwrap_or_else(clock::now);
                all.extend(
                    journal::read(&incarnation.journal, ended)
                        .with_context(|| incarnation.journal.display().to_string())?,
                );
            }
        }
        Ok(all)
    }
}

impl Client {
    pub(crate) fn name(&self) -> String {
        format!("client {} ({:?})", self.options.number, self.options.kind)
    }

    /// All workers of its current incarnation, as named in histories.
    pub(crate) fn target(&self) -> String {
        let incarnations = self.incarnations.lock().unwrap_or_else(PoisonError::into_inner).len();
        let incarnation = u32::try_from(incarnations.saturating_sub(1)).unwrap_or(u32::MAX);
        let workers = ClientOptions { incarnation, ..self.options.clone() }.workers();
        workers.iter().map(|worker| format!("client {worker}")).collect::<Vec<_>>().join(", ")
    }

    /// Starts its next incarnation.
    pub(crate) async fn start_next(&self) -> Result<()> {
        let mut slot = self.process.lock().await;
        let options = {
            let mut incarnations = self.incarnations.lock().unwrap_or_else(PoisonError::into_inner);
            let options = ClientOptions { incarnation: u32::try_from(incarnations.len())?, ..self.options.clone() };
            // The journal exists even if the client is killed before it writes.
            std::fs::File::create_new(options.journal())?;
            incarnations.push(Incarnation { journal: options.journal(), ended: None });
            options
        };
        let process = ProcessSpec::own()
            .args(["client".to_owned(), serde_json::to_string(&options)?])
            .start(&self.options.log())?;
        *slot = Some(process);
        Ok(())
    }

    pub(crate) async fn kill(&self) -> Result<()> {
        let mut process = self.process.lock().await.take().context("the client is down")?;
        process.kill().await.with_context(|| format!("{}: see {}", self.name(), self.options.log().display()))?;
        self.ended();
        Ok(())
    }

    pub(crate) async fn pause(&self) -> Result<()> {
        self.process.lock().await.as_mut().context("the client is down")?.pause().await
    }

    pub(crate) async fn resume(&self) -> Result<()> {
        self.process.lock().await.as_mut().context("the client is down")?.resume()
    }

    fn ended(&self) {
        if let Some(incarnation) = self.incarnations.lock().unwrap_or_else(PoisonError::into_inner).last_mut() {
            incarnation.ended = Some(clock::now());
        }
    }
}
