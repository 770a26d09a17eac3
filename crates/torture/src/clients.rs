//! The client processes of a history, as the one who starts and hurts them sees them.

use crate::{
    client::{self, ClientKind, Orders},
    clock,
    config::Config,
    journal,
    process::{Process, Recipe},
};
use anyhow::{Context, Result, ensure};
use fencepost_torture::history::{Nanos, Record};
use std::{
    path::PathBuf,
    sync::{Mutex as PlainMutex, PoisonError},
    time::Duration,
};
use tokio::sync::Mutex;

/// Longer than any operation of a client goes on after it was told to end.
const FINISH_MAX: Duration = Duration::from_secs(9);

struct Life {
    journal: PathBuf,
    ended: Option<Nanos>,
}

/// One client and its lives.
pub(crate) struct Client {
    orders: Orders,
    process: Mutex<Option<Process>>,
    lives: PlainMutex<Vec<Life>>,
}

/// All clients.
pub(crate) struct Clients(Vec<Client>);

impl Clients {
    /// Starts all of them. `servers` are the ports to reach the servers by.
    pub(crate) async fn start(config: &Config, servers: &[u16]) -> Result<Self> {
        client::is_set_up()?;
        let mut all = Vec::new();
        for (number, kind) in ClientKind::ALL.into_iter().enumerate() {
            let orders = Orders {
                kind,
                number: u32::try_from(number)?,
                life: 0,
                seed: config.seed,
                servers: servers.to_vec(),
                stores: config.socket("stores"),
                folder: config.folder.clone(),
            };
            let client = Client { orders, process: Mutex::default(), lives: PlainMutex::default() };
            client.begin().await?;
            all.push(client);
        }
        Ok(Self(all))
    }

    pub(crate) fn at(&self, target: usize) -> &Client {
        &self.0[target % self.0.len()]
    }

    /// Tells all of them to end, and waits until they have.
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
            ensure!(status.success(), "{} ended with {status}: see {}", client.name(), client.orders.log().display());
        }
        Ok(())
    }

    /// What they wrote down.
    pub(crate) fn records(&self) -> Result<Vec<Record>> {
        let mut all = Vec::new();
        for client in &self.0 {
            for life in client.lives.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                let ended = life.ended.unwrap_or_else(clock::now);
                all.extend(journal::read(&life.journal, ended).with_context(|| life.journal.display().to_string())?);
            }
        }
        Ok(all)
    }
}

impl Client {
    pub(crate) fn name(&self) -> String {
        format!("client {} ({:?})", self.orders.number, self.orders.kind)
    }

    /// With the workers of its present life, as histories know them.
    pub(crate) fn target(&self) -> String {
        let lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner).len();
        let life = u32::try_from(lives.saturating_sub(1)).unwrap_or(u32::MAX);
        let workers = Orders { life, ..self.orders.clone() }.workers();
        workers.iter().map(|worker| format!("client {worker}")).collect::<Vec<_>>().join(", ")
    }

    /// Starts it, with its next life.
    pub(crate) async fn begin(&self) -> Result<()> {
        let mut slot = self.process.lock().await;
        let orders = {
            let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
            let orders = Orders { life: u32::try_from(lives.len())?, ..self.orders.clone() };
            // A client that is killed before it writes anything has written nothing.
            std::fs::File::create_new(orders.journal())?;
            lives.push(Life { journal: orders.journal(), ended: None });
            orders
        };
        let process =
            Recipe::own().args(["client".to_owned(), serde_json::to_string(&orders)?]).start(&self.orders.log())?;
        *slot = Some(process);
        Ok(())
    }

    pub(crate) async fn kill(&self) -> Result<()> {
        let mut process = self.process.lock().await.take().context("it is down")?;
        process.kill().await.with_context(|| format!("{}: see {}", self.name(), self.orders.log().display()))?;
        self.ended();
        Ok(())
    }

    pub(crate) async fn pause(&self) -> Result<()> {
        self.process.lock().await.as_mut().context("it is down")?.pause().await
    }

    pub(crate) async fn resume(&self) -> Result<()> {
        self.process.lock().await.as_mut().context("it is down")?.resume()
    }

    fn ended(&self) {
        if let Some(life) = self.lives.lock().unwrap_or_else(PoisonError::into_inner).last_mut() {
            life.ended = Some(clock::now());
        }
    }
}
