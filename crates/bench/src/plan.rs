//! What is to be measured: the command line, checked.

use serde::Serialize;
use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

/// Calls that share one connection, unless it is said otherwise: a client library has one connection for all its
/// callers.
const CLIENTS_PER_CONNECTION: usize = 64;

/// The workload of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Acquire and release of a lock that nobody else wants.
    Pairs,
    /// Everybody wants the same lock.
    Handoff,
    /// Many wait for a lock that does not come free.
    Idle,
    /// Many leases are kept alive.
    Hold,
    /// One waiter: release to granted.
    Wake,
}

/// How the calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// A call each; leases are kept on KeepAlive streams.
    Unary,
    /// All of them on Session streams.
    Session,
}

/// What is driven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Servers that run already, and the Redis to look at and to measure the baselines on, if it is known.
    Servers(Vec<String>, Option<String>),
    /// Servers of its own, on the memory store.
    Memory,
    /// Servers of its own, on this Redis.
    Redis(String),
    /// Servers and a Redis of its own.
    OwnRedis,
}

/// All that was asked for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is driven.
    pub target: Target,
    /// Which of them.
    pub workloads: Vec<Workload>,
    /// How.
    pub via: Via,
    /// Of `pairs` and `handoff`.
    pub clients: usize,
    /// Of `idle`.
    pub waiters: usize,
    /// Of `hold`.
    pub leases: usize,
    /// That carry the leases of `hold`.
    pub streams: usize,
    /// The TTL of the leases of `hold`.
    pub ttl: Duration,
    /// For all clients together; by default one for every 64.
    pub connections: Option<usize>,
    /// How many servers of its own.
    pub replicas: usize,
    /// For how long each is measured, each time.
    pub duration: Duration,
    /// For how long it runs before.
    pub warmup: Duration,
    /// How often each is measured.
    pub rounds: usize,
    /// Operations a second in all; without it, each client begins when it has ended.
    pub rate: Option<f64>,
    /// A lock name is used once.
    pub fresh_names: bool,
    /// Locks that are held meanwhile.
    pub held: usize,
    /// Measure the baselines too.
    pub baselines: bool,
    /// For a Redis of its own.
    pub redis_server: PathBuf,
    /// For a Redis of its own: `name value`.
    pub redis_options: Vec<String>,
}

impl Plan {
    /// How many connections so many clients share; each server has one.
    pub(super) fn connections(&self, clients: usize, servers: usize) -> usize {
        self.connections.unwrap_or(clients.div_ceil(CLIENTS_PER_CONNECTION)).max(servers).max(1)
    }

    /// Is there a Redis for the baselines that need one?
    pub(super) fn has_redis(&self) -> bool {
        !matches!(self.target, Target::Memory | Target::Servers(_, None))
    }
}

impl Workload {
    /// In the order in which they are measured.
    pub const ALL: [Self; 5] = [Self::Pairs, Self::Handoff, Self::Idle, Self::Hold, Self::Wake];

    /// Its name on the command line and in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Handoff => "handoff",
            Self::Idle => "idle",
            Self::Hold => "hold",
            Self::Wake => "wake",
        }
    }
}

impl Via {
    /// What [`FromStr`] reads.
    pub const NAMES: [&str; 2] = ["unary", "session"];
}

impl FromStr for Via {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "unary" => Ok(Self::Unary),
            "session" => Ok(Self::Session),
            _ => Err("no such way".to_owned()),
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unary => "unary",
            Self::Session => "session",
        })
    }
}

impl Target {
    /// For people; a URL may hold a password, so it is not shown.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Servers(..) => "servers that run already",
            Self::Memory => "the memory store",
            Self::Redis(_) => "a Redis that runs already",
            Self::OwnRedis => "a Redis of its own",
        }
    }
}
