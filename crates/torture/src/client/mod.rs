//! A client process: some workers that take locks, work under them and give them back, each in its own way.
//!
//! It ends when its input does: workers finish what they are at. A kind of client is a file here and a variant of
//! [`ClientKind`].

mod caller;
mod holding;
mod library;
mod outcome;
mod repeating;
mod retry_policy;
mod session;
mod stream;
mod taking;
mod unary;
mod work;

use crate::{journal::Journal, rng::Rng, server};
use anyhow::Result;
use caller::{Caller, Way};
use retry_policy::RetryPolicy;
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::watch;

/// How a client talks to the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClientKind {
    /// The unary calls, on locks that many want.
    UnaryHot,
    /// The unary calls, mostly on locks that few want.
    UnaryCold,
    /// Leases kept alive on a stream of its own.
    Stream,
    /// Everything on sessions that all workers share.
    Session,
    /// The Rust client library.
    Library,
    /// The unary calls, repeated by hand: all transmissions of a request have the same attempt number.
    Uncounted,
    /// The same, and gRPC repeats each call as well, by its retry policy.
    RetryPolicy,
}

impl ClientKind {
    pub(crate) const ALL: [Self; 7] = [
        Self::UnaryHot,
        Self::UnaryCold,
        Self::Stream,
        Self::Session,
        Self::Library,
        Self::Uncounted,
        Self::RetryPolicy,
    ];

    fn workers(self) -> u32 {
        match self {
            Self::UnaryHot => 9,
            Self::UnaryCold => 20,
            Self::Stream => 5,
            Self::Session => 16,
            Self::Library => 5,
            Self::Uncounted => 8,
            Self::RetryPolicy => 5,
        }
    }

    /// Whether a worker numbers the transmissions of a request.
    fn counts(self) -> bool {
        !matches!(self, Self::Uncounted | Self::RetryPolicy)
    }
}

/// What a client process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) kind: ClientKind,
    pub(crate) number: u32,
    /// How often it was started before.
    pub(crate) life: u32,
    pub(crate) seed: u64,
    /// The ports to reach the servers by.
    pub(crate) servers: Vec<u16>,
    /// The socket of the stores.
    pub(crate) stores: PathBuf,
    pub(crate) folder: PathBuf,
}

impl Orders {
    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.join(format!("client-{}-{}.jsonl", self.number, self.life))
    }

    /// For what the client and its Python process print.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join(format!("client-{}.log", self.number))
    }

    /// Names a worker in histories.
    fn worker(&self, number: u32) -> u32 {
        (self.number + 1) * 10_000 + self.life * 100 + number
    }

    /// All workers of this life.
    pub(crate) fn workers(&self) -> Vec<u32> {
        (0..self.kind.workers()).map(|number| self.worker(number)).collect()
    }
}

/// Set when the process is told to end.
pub(crate) type End = watch::Receiver<bool>;

pub(crate) use retry_policy::is_set_up;

/// `torture client ORDERS`.
pub(crate) async fn run(orders: Orders) -> Result<()> {
    let journal = Arc::new(Journal::new(&orders.journal())?);
    let channels = orders.servers.iter().map(|port| server::channel(*port)).collect::<Result<Vec<_>>>()?;
    let (end, ending) = watch::channel(false);
    let library = (orders.kind == ClientKind::Library).then(|| library::client(&orders)).transpose()?;
    let way = match orders.kind {
        ClientKind::Session => Way::Sessions(Arc::new(session::Sessions::new(channels.clone()))),
        ClientKind::RetryPolicy => Way::RetryPolicy(Arc::new(RetryPolicy::start(&orders)?)),
        _ => Way::Unary,
    };
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..orders.kind.workers() {
        let id = orders.worker(number);
        let rng = Rng::new(orders.seed, 0x1_0000 + u64::from(id));
        let caller = Caller::new(id, channels.clone(), way.clone(), Arc::clone(&journal));
        let stores = work::Stores::connect(&orders.stores).await?;
        let worker = taking::Worker::new(caller, rng, stores, ending.clone(), orders.kind);
        let (library, way, kind) = (library.clone(), way.clone(), orders.kind);
        workers.spawn(async move {
            match (library, way) {
                (Some(client), _) => library::run(worker, client).await,
                (_, Way::Sessions(sessions)) => session::run(worker, sessions).await,
                _ if !kind.counts() => repeating::run(worker).await,
                _ if kind == ClientKind::Stream => stream::run(worker).await,
                _ => unary::run(worker).await,
            }
        });
    }
    let told = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    tokio::select! {
        _ = told => {}
        // None of them ends before it is told to, unless something is wrong with the harness.
        Some(ended) = workers.join_next() => ended??,
    }
    end.send_replace(true);
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    if let Some(client) = library {
        // What the library does in the background counts as well, but nobody waits for ever.
        let _ = tokio::time::timeout(Duration::from_secs(2), client.settle()).await;
    }
    // The reader of the input may be left: it must not keep the process.
    std::process::exit(0)
}
