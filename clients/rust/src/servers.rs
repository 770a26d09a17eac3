//! The replicas of the server, and which of them to talk to.
//!
//! All replicas share one state, so any of them will do: calls stay with one that works and move on when it fails. A
//! tonic channel connects when it is first used and again by itself after a failure; nothing here has to.
//!
//! Each replica has two channels. A server bounds the concurrent streams of one connection, and calls that wait in line
//! can use them all up: a session must never queue behind them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// How long to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How often to ask the other end of a quiet connection whether it is still there, and how long to wait for its answer.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// What a call may keep the connection busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Answered at once, or a stream that must get through.
    Prompt,
    /// May wait in line for a long time.
    Waiting,
}

#[derive(Debug)]
struct Server {
    prompt: Channel,
    waiting: Channel,
}

#[derive(Debug)]
pub(crate) struct Servers {
    servers: Vec<Server>,
    /// Counts up; its remainder is the one to talk to.
    preferred: AtomicUsize,
}

impl Servers {
    /// Needs a running tokio runtime, but no server: channels connect when they are used.
    pub(crate) fn new(endpoints: Vec<Endpoint>) -> Self {
        let connect = |endpoint: Endpoint| Server { prompt: endpoint.connect_lazy(), waiting: endpoint.connect_lazy() };
        Self { servers: endpoints.into_iter().map(connect).collect(), preferred: AtomicUsize::new(0) }
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
}

/// The settings that every connection gets, unless the caller hands in an endpoint of its own.
pub(crate) fn endpoint(url: &str) -> Result<Endpoint, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(url.to_owned())?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true))
}
