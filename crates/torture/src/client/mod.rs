//! A client process: workers that acquire locks, work under them and release them, each in its own way.
//!
//! It stops at the end of its stdin, after its workers have finished. A kind of client is a file here and a variant of
//! [`ClientKind`].

mod caller;
mod conversion;
mod held_lease;
mod library;
mod outcome;
mod retry_policy;
mod session;
mod stream;
mod unary;
mod uncounted;
mod work;
mod worker;

use crate::{journal::Journal, rng::Rng, server};
use anyhow::Result;
use caller::{Caller, Transport};
use retry_policy::RetryPolicy;
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::watch;

/// How a client calls the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClientKind {
    /// Unary calls, on contended locks.
    UnaryHot,
    /// Unary calls, mostly on uncontended locks.
    UnaryCold,
    /// Leases kept alive on a stream each.
    Stream,
    /// Sessions shared by all workers.
    Session,
    /// The Rust client library.
    Library,
    /// Unary calls, retried without counting: all transmissions of a request have the same attempt number.
    Uncounted,
    /// The same, and gRPC retries each call as well, by its retry policy.
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

/// The options of a client process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClientOptions {
    pub(crate) kind: ClientKind,
    pub(crate) number: u32,
    /// How often it was started before.
    pub(crate) incarnation: u32,
    pub(crate) seed: u64,
    /// The ports of the servers.
    pub(crate) servers: Vec<u16>,
    /// The socket of the protected stores.
    pub(crate) stores: PathBuf,
    pub(crate) folder: PathBuf,
}

impl ClientOptions {
    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.join(format!("client-{}-{}.jsonl", self.number, self.incarnation))
    }

    /// The log of the client and its Python process.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join(format!("client-{}.log", self.number))
    }

    /// The number of a worker in histories.
    fn worker(&self, number: u32) -> u32 {
        (self.number + 1) * 10_000 + self.incarnation * 100 + number
    }

    /// All workers of this incarnation.
    pub(crate) fn workers(&self) -> Vec<u32> {
        (0..self.kind.workers()).map(|number| self.worker(number)).collect()
    }
}

/// The first stream of random numbers for the conversions of workers.
const CONVERSIONS: u64 = 0x100_0000;

/// Set when the process must stop.
pub(crate) type EndSignal = watch::Receiver<bool>;

pub(crate) use retry_policy::is_set_up;

/// `torture client OPTIONS`.
pub(crate) async fn run(options: ClientOptions) -> Result<()> {
    let journal = Arc::new(Journal::new(&options.journal())?);
    let channels = options.servers.iter().map(|port| server::channel(*port)).collect::<Result<Vec<_>>>()?;
    let (end, ending) = watch::channel(false);
    let library = (options.kind == ClientKind::Library).then(|| library::client(&options)).transpose()?;
    let transport = match options.kind {
        ClientKind::Session => Transport::Sessions(Arc::new(session::Sessions::new(channels.clone()))),
        ClientKind::RetryPolicy => Transport::RetryPolicy(Arc::new(RetryPolicy::start(&options)?)),
        _ => Transport::Unary,
    };
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..options.kind.workers() {
        let id = options.worker(number);
        let rngs = [0x1_0000, CONVERSIONS].map(|stream| Rng::new(options.seed, stream + u64::from(id)));
        let caller = Caller::new(id, channels.clone(), transport.clone(), Arc::clone(&journal));
        let stores = work::StoresClient::connect(&options.stores).await?;
        let worker = worker::Worker::new(caller, rngs.into(), stores, ending.clone(), options.kind);
        let (library, transport, kind) = (library.clone(), transport.clone(), options.kind);
        workers.spawn(async move {
            match (library, transport) {
                (Some(client), _) => library::run(worker, client).await,
                (_, Transport::Sessions(sessions)) => session::run(worker, sessions).await,
                _ if !kind.counts() => uncounted::run(worker).await,
                _ if kind == ClientKind::Stream => stream::run(worker).await,
                _ => unary::run(worker).await,
            }
        });
    }
    let stdin_closed = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    tokio::select! {
        _ = stdin_closed => {}
        // Workers end early only if something is wrong with the harness.
        Some(ended) = workers.join_next() => ended??,
    }
    end.send_replace(true);
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    if let Some(client) = library {
        // Background work of the library is part of the history, but is not awaited forever.
        let _ = tokio::time::timeout(Duration::from_secs(2), client.flush()).await;
    }
    // The blocked reader of stdin must not keep the process alive.
    std::process::exit(0)
}
