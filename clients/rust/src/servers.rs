//! The replicas of the server, and which of them to talk to.
//!
//! All replicas share one state, so any of them will do: calls stay with one that works and move on when it fails. A
//! tonic channel connects when it is first used and again by itself after a failure; nothing here has to.
//!
//! Each replica has two channels. A server bounds the concurrent streams of one connection, and calls that wait in line
//! can use them all up: a session must never queue behind them.

use crate::address::ServerAddress;
use crate::connect;
use crate::error::CallError;
use crate::greeting::Greeting;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tonic::transport::{Channel, Endpoint};

/// What a call may keep the connection busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Answered at once, or a stream that must get through.
    Prompt,
    /// May wait in line for a long time.
    Waiting,
}

/// Needs a running tokio runtime to be made, but no server: its channels connect when they are used.
#[derive(Debug)]
pub(crate) struct Server {
    prompt: Channel,
    waiting: Channel,
    /// Where it is and how it greets, unless the caller's own endpoint connects to it.
    greeting: Option<(ServerAddress, Arc<Greeting>)>,
}

impl Server {
    pub(crate) fn at(address: ServerAddress) -> Result<Self, tonic::transport::Error> {
        let (endpoint, greeting) = (connect::endpoint(&address)?, Arc::<Greeting>::default());
        let channel = || connect::channel(&endpoint, greeting.clone());
        Ok(Self { prompt: channel(), waiting: channel(), greeting: Some((address, greeting)) })
    }

    pub(crate) fn with(endpoint: &Endpoint) -> Self {
        Self { prompt: endpoint.connect_lazy(), waiting: endpoint.connect_lazy(), greeting: None }
    }
}

#[derive(Debug)]
pub(crate) struct Servers {
    servers: Vec<Server>,
    /// Counts up; its remainder is the one to talk to.
    preferred: AtomicUsize,
}

impl Servers {
    pub(crate) fn new(servers: Vec<Server>) -> Self {
        Self { servers, preferred: AtomicUsize::new(0) }
    }

    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// The server to talk to now.
    pub(crate) fn preferred(&self) -> usize {
        self.preferred.load(Ordering::Relaxed) % self.servers.len()
    }

    /// The one after it.
    pub(crate) fn after(&self, index: usize) -> usize {
        (index + 1) % self.servers.len()
    }

    pub(crate) fn channel(&self, index: usize, lane: Lane) -> Channel {
        let server = &self.servers[index % self.servers.len()];
        match lane {
            Lane::Prompt => server.prompt.clone(),
            Lane::Waiting => server.waiting.clone(),
        }
    }

    /// This one failed: prefer the next, unless somebody else has moved on already.
    pub(crate) fn failed(&self, index: usize) {
        if self.preferred() == index {
            self.preferred.store(self.after(index), Ordering::Relaxed);
        }
    }

    /// The error of a call to this server; says so if the server does not speak gRPC.
    pub(crate) fn judge(&self, index: usize, error: CallError) -> CallError {
        match &self.servers[index % self.servers.len()].greeting {
            Some((address, greeting)) => error.with_greeting(address, greeting),
            None => error,
        }
    }
}
