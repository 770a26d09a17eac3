//! The server's replicas, and which one to use.
//!
//! All replicas share one state, so any of them will do: calls stay with one that works and move on when it fails. A
//! tonic channel connects on first use and reconnects by itself after a failure.
//!
//! Each replica has two channels. A server bounds the concurrent streams of one connection, and waiting calls can use
//! them all: a session must never queue behind them.
//!
//! A channel keeps a connection that is open and carries nothing, as behind a NAT that forgot it, until its HTTP/2
//! pings fail. That is too late for a lock, so a session or call without an answer takes its channel with it: the next
//! one uses a new channel, which opens a new connection.

use crate::address::ServerAddress;
use crate::bearer::{Bearer, Connection};
use crate::client::ConfigError;
use crate::clock::Moment;
use crate::connect::{self, CONNECT_TIMEOUT, Connector};
use crate::error::CallError;
use crate::events;
use crate::greeting::Greeting;
use crate::stores::Stores;
use crate::tls::Tls;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tonic::transport::{Channel, Endpoint};

/// Which channel a call uses, by how long it may occupy a stream of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Answered at once, or a session, which must never queue.
    Prompt,
    /// May wait in the lock's queue for a long time.
    Waiting,
}

/// The channel of one lane to one server, as a call or session uses it.
#[derive(Clone, Debug)]
pub(crate) struct ServerChannel {
    pub(crate) connection: Connection,
    pub(crate) server: usize,
    lane: Lane,
    generation: u64,
}

/// The newest channel of a lane.
#[derive(Debug)]
struct Newest {
    channel: Channel,
    generation: u64,
    made: Moment,
    /// Whether the channel's connection has received the greeting of a server.
    greeted: Arc<AtomicBool>,
}

/// What is needed to connect to a server.
#[derive(Debug)]
enum Target {
    Address {
        address: ServerAddress,
        endpoint: Box<Endpoint>,
        connector: Connector,
        greeting: Arc<Greeting>,
    },
    /// Passed by the caller.
    Endpoint(Box<Endpoint>),
}

impl Target {
    /// Needs a tokio runtime. Connects on first use, and resolves the name anew for each connection.
    fn channel(&self, generation: u64) -> Newest {
        let greeted = Arc::<AtomicBool>::default();
        let channel = match self {
            Self::Address { endpoint, connector, .. } => {
                endpoint.connect_with_connector_lazy(connector.reporting(greeted.clone()))
            }
            Self::Endpoint(endpoint) => endpoint.connect_lazy(),
        };
        Newest { channel, generation, made: Moment::now(), greeted }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { address, .. } => address.fmt(f),
            Self::Endpoint(endpoint) => endpoint.uri().fmt(f),
        }
    }
}

/// One replica. Needs a tokio runtime to be created; its channels connect on first use.
#[derive(Debug)]
pub(crate) struct Server {
    target: Target,
    /// Each is locked for a few instructions only, never across an await.
    prompt: Mutex<Newest>,
    waiting: Mutex<Newest>,
    /// Whether its failure was reported, and it has not worked since.
    is_failing: AtomicBool,
}

impl Server {
    pub(crate) fn at(address: ServerAddress, tls: &Arc<Tls>) -> Result<Self, ConfigError> {
        let unusable =
            |error: tonic::transport::Error| ConfigError::Endpoint { address: address.to_string(), why: cause(&error) };
        let endpoint = Box::new(connect::endpoint(&address).map_err(unusable)?);
        let greeting = Arc::<Greeting>::default();
        let connector = Connector::new(&address, tls, greeting.clone())?;
        Ok(Self::to(Target::Address { address, endpoint, connector, greeting }))
    }

    pub(crate) fn with(endpoint: Box<Endpoint>) -> Self {
        Self::to(Target::Endpoint(endpoint))
    }

    fn to(target: Target) -> Self {
        let (prompt, waiting) = (Mutex::new(target.channel(0)), Mutex::new(target.channel(0)));
        Self { target, prompt, waiting, is_failing: AtomicBool::new(false) }
    }

    fn newest(&self, lane: Lane) -> MutexGuard<'_, Newest> {
        let newest = match lane {
            Lane::Prompt => &self.prompt,
            Lane::Waiting => &self.waiting,
        };
        newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cause(error: &tonic::transport::Error) -> String {
    crate::error::root_cause(error).to_string()
}

pub(crate) struct Servers {
    servers: Vec<Server>,
    bearer: Bearer,
    stores: Stores,
    /// Its remainder is the index of the preferred server.
    preferred: AtomicUsize,
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.servers.iter().map(|server| server.target.to_string())).finish()
    }
}

impl Servers {
    pub(crate) fn new(servers: Vec<Server>, bearer: Bearer) -> Self {
        let stores = Stores::of(servers.len());
        Self { servers, bearer, stores, preferred: AtomicUsize::new(0) }
    }

    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    fn server(&self, index: usize) -> &Server {
        &self.servers[index % self.servers.len()]
    }

    /// The server to use now.
    pub(crate) fn preferred(&self) -> usize {
        self.preferred.load(Ordering::Relaxed) % self.servers.len()
    }

    /// The next server.
    fn after(&self, index: usize) -> usize {
        (index + 1) % self.servers.len()
    }

    pub(crate) fn channel(&self, index: usize, lane: Lane) -> ServerChannel {
        let newest = self.server(index).newest(lane);
        let connection = Connection::new(newest.channel.clone(), self.bearer.clone());
        ServerChannel { connection, server: index, lane, generation: newest.generation }
    }

    /// Replaces a channel that went silent, unless that has been done since. A connection that is still being made gets
    /// its time: over a slow network it takes longer than the answers of sessions with short TTLs may take.
    ///
    /// Needs a tokio runtime. Calls and sessions that use the old channel go on, and its connection ends with them.
    pub(crate) fn went_silent(&self, silent: &ServerChannel) {
        let server = self.server(silent.server);
        let mut newest = server.newest(silent.lane);
        let had_time = newest.greeted.load(Ordering::Relaxed) || Moment::now().since(newest.made) >= CONNECT_TIMEOUT;
        if newest.generation == silent.generation && had_time {
            tracing::debug!(server = %server.target, "a connection went silent; the next call opens another one");
            *newest = server.target.channel(silent.generation + 1);
        }
    }

    /// Moves on from a server that failed, unless another call has done so already.
    pub(crate) fn failed(&self, index: usize, why: &dyn fmt::Display) {
        let next = self.after(index);
        if self.preferred() == index {
            self.preferred.store(next, Ordering::Relaxed);
        }
        self.report(index, why, next);
    }

    /// Stays with a server that refused a session for a quota: another one has as much for the client.
    pub(crate) fn refused(&self, index: usize, why: &dyn fmt::Display) {
        self.report(index, why, index);
    }

    fn report(&self, index: usize, why: &dyn fmt::Display, next: usize) {
        let server = self.server(index);
        if !server.is_failing.swap(true, Ordering::Relaxed) {
            let next = if next == index { "again".to_owned() } else { self.server(next).target.to_string() };
            events::server_failed(&server.target, why, &next);
        }
    }

    /// A server answered: its next failure is a new one.
    pub(crate) fn answered(&self, index: usize) {
        self.server(index).is_failing.store(false, Ordering::Relaxed);
    }

    /// A server told the id of its store.
    pub(crate) fn told_store(&self, index: usize, id: &str) {
        if let Some(other) = self.stores.told(index, id) {
            events::other_store(&self.server(index).target, &self.server(other).target);
        }
    }

    /// Adds to the error of a call why this server cannot be called.
    pub(crate) fn explain(&self, index: usize, error: CallError) -> CallError {
        match &self.server(index).target {
            Target::Address { address, greeting, .. } => error.with_greeting(address, greeting),
            Target::Endpoint(_) => error,
        }
    }
}
