//! What to measure: the validated command line.

use fencepost_client::{ServerAddress, Tls};
use serde::Serialize;
use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

/// Clients per connection by default: a client library has one connection for all its callers.
const CLIENTS_PER_CONNECTION: usize = 64;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    /// Acquire and release of an uncontended lock.
    Pairs,
    /// All clients contend for one lock.
    Handoff,
    /// Many wait for a lock that is never released.
    Idle,
    /// Many leases are kept alive.
    Hold,
    /// One waiter: from release to grant.
    Wake,
}

/// How calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Via {
    /// Unary calls; leases are kept on KeepAlive streams.
    Unary,
    /// Session streams.
    Session,
}

/// In which modes the clients of `handoff` ask for their lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Each alone.
    Exclusive,
    /// All as readers.
    Shared,
    /// Nine of ten requests as readers.
    Mixed,
    /// Each for one of so many permits.
    Semaphore(u32),
}

/// The system under load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Running servers, and the Redis behind them, if known: for its counters and for the baselines.
    Servers(Vec<ServerAddress>, Option<String>),
    /// Own servers, on the memory store.
    Memory,
    /// Own servers, on this Redis.
    Redis(String),
    /// Own servers, on an own Redis.
    OwnRedis,
}

/// All parameters.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The system under load.
    pub target: Target,
    /// The files for TLS with running servers.
    pub tls: Tls,
    /// The workloads, in order.
    pub workloads: Vec<Workload>,
    /// How calls are made.
    pub via: Via,
    /// In which modes `handoff` asks for its lock.
    pub mode: Mode,
    /// Clients of `pairs` and `handoff`.
    pub clients: usize,
    /// Waiters of `idle`.
    pub waiters: usize,
    /// Leases of `hold`.
    pub leases: usize,
    /// Streams that carry the leases of `hold`.
    pub streams: usize,
    /// The TTL of the leases of `hold`.
    pub ttl: Duration,
    /// Connections for all clients; by default one for every 64.
    pub connections: Option<usize>,
    /// The number of own servers.
    pub replicas: usize,
    /// The measured time of each round.
    pub duration: Duration,
    /// Warm-up before measuring.
    pub warmup: Duration,
    /// Rounds of each measurement.
    pub rounds: usize,
    /// Operations per second of all clients; `None` for a closed loop.
    pub rate: Option<f64>,
    /// Whether each lock name is used once.
    pub fresh_names: bool,
    /// Locks held during the measurement.
    pub held: usize,
    /// Whether to measure the baselines too.
    pub baselines: bool,
    /// The program of own servers.
    pub fencepost: PathBuf,
    /// The program of an own Redis.
    pub redis_server: PathBuf,
    /// Options of an own Redis: `name value`.
    pub redis_options: Vec<String>,
}

impl Plan {
    /// The number of connections for these clients; at least one per server.
    pub(super) fn connections(&self, clients: usize, servers: usize) -> usize {
        self.connections.unwrap_or(clients.div_ceil(CLIENTS_PER_CONNECTION)).max(servers).max(1)
    }

    /// Whether there is a Redis for the baselines that need one.
    pub(super) fn has_redis(&self) -> bool {
        !matches!(self.target, Target::Memory | Target::Servers(_, None))
    }
}

impl Workload {
    /// All workloads, in the order of measurement.
    pub(crate) const ALL: [Self; 5] = [Self::Pairs, Self::Handoff, Self::Idle, Self::Hold, Self::Wake];

    /// Its name on the command line and in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Handoff => "handoff",
            Self::Idle => "idle",
            Self::Hold => "hold",
            Self::Wake => "wake",
        }
    }
}

impl Mode {
    /// The names on the command line.
    pub(crate) const NAMES: [&str; 4] = ["exclusive", "shared", "mixed", "semaphore"];

    /// The mode of this name; `permits` are those of a semaphore.
    pub(crate) fn named(name: &str, permits: u32) -> Self {
        match name {
            "shared" => Self::Shared,
            "mixed" => Self::Mixed,
            "semaphore" => Self::Semaphore(permits),
            _ => Self::Exclusive,
        }
    }
}

impl Via {
    /// The names that [`FromStr`] accepts.
    pub(crate) const NAMES: [&str; 2] = ["unary", "session"];
}

impl FromStr for Via {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "unary" => Ok(Self::Unary),
            "session" => Ok(Self::Session),
            _ => Err("expected unary or session".to_owned()),
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
    /// The display name. Not the URL, which may contain a password.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Servers(..) => "servers that run already",
            Self::Memory => "the memory store",
            Self::Redis(_) => "a Redis that runs already",
            Self::OwnRedis => "a Redis of its own",
        }
    }
}
