//! The server's replicas, and which one to use.
//!
//! All replicas share one state, so any of them will do: calls stay with one that works and move on when it fails. A
//! tonic channel connects on first use and reconnects by itself after a failure.
//!
//! Each replica has two channels. A server bounds the concurrent streams of one connection, and waiting calls can use
//! them all: a session must never queue behind them.

use crate::address::ServerAddress;
use crate::bearer::{Bearer, Connection};
use crate::client::ConfigError;
use crate::connect::{self, Connector};
use crate::error::CallError;
use crate::greeting::Greeting;
use crate::tls::Tls;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tonic::transport::{Channel, Endpoint};

/// Which channel a call uses, by how long it may occupy a stream of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Answered at once, or a session, which must never queue.
    Prompt,
    /// May wait in the lock's queue for a long time.
    Waiting,
}

/// One replica. Needs a tokio runtime to be created; its channels connect on first use.
#[derive(Debug)]
pub(crate) struct Server {
    prompt: Channel,
    waiting: Channel,
    /// The address and the greeting; `None` if the caller passed an endpoint.
    greeting: Option<(ServerAddress, Arc<Greeting>)>,
}

impl Server {
    pub(crate) fn at(address: ServerAddress, tls: &Arc<Tls>) -> Result<Self, ConfigError> {
        let source = |source| ConfigError::Endpoint { address: address.to_string(), source };
        let endpoint = connect::endpoint(&address).map_err(source)?;
        let greeting = Arc::<Greeting>::default();
        let connector = Connector::new(&address, tls, greeting.clone())?;
        let channel = || endpoint.connect_with_connector_lazy(connector.clone());
        Ok(Self { prompt: channel(), waiting: channel(), greeting: Some((address, greeting)) })
    }

    pub(crate) fn with(endpoint: &Endpoint) -> Self {
        Self { prompt: endpoint.connect_lazy(), waiting: endpoint.connect_lazy(), greeting: None }
    }
}

#[derive(Debug)]
pub(crate) struct Servers {
    servers: Vec<Server>,
    bearer: Bearer,
    /// Its remainder is the index of the preferred server.
    preferred: AtomicUsize,
}

impl Servers {
    pub(crate) fn new(servers: Vec<Server>, bearer: Bearer) -> Self {
        Self { servers, bearer, preferred: AtomicUsize::new(0) }
    }

    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// The server to use now.
    pub(crate) fn preferred(&self) -> usize {
        self.preferred.load(Ordering::Relaxed) % self.servers.len()
    }

    /// The next server.
    pub(crate) fn after(&self, index: usize) -> usize {
        (index + 1) % self.servers.len()
    }

    pub(crate) fn channel(&self, index: usize, lane: Lane) -> Connection {
        let server = &self.servers[index % self.servers.len()];
        let channel = match lane {
            Lane::Prompt => server.prompt.clone(),
            Lane::Waiting => server.waiting.clone(),
        };
        Connection::new(channel, self.bearer.clone())
    }

    /// Moves on from a server that failed, unless another call has done so already.
    pub(crate) fn failed(&self, index: usize) {
        if self.preferred() == index {
            self.preferred.store(self.after(index), Ordering::Relaxed);
        }
    }

    /// Adds to the error of a call why this server cannot be called.
    pub(crate) fn explain(&self, index: usize, error: CallError) -> CallError {
        match &self.servers[index % self.servers.len()].greeting {
            Some((address, greeting)) => error.with_greeting(address, greeting),
            None => error,
        }
    }
}
