//! The store in Redis: the rules, run as scripts by the Redis that all server replicas share.
//!
//! A replica keeps nothing that matters: who waits here (to poll for them), and the highest token it has seen in each
//! bucket (to remember what Redis may forget). Three scripts have all commands, and run those of one moment together;
//! messages between replicas are hints, the poll is the net.

mod admission;
pub mod answer;
mod call;
pub mod command;
pub mod doctor;
pub mod effects;
mod error;
mod hand_over;
mod inline;
pub mod keys;
pub mod lease;
mod listing;
mod packed;
mod quick;
pub mod scripts;
pub mod sender;
mod store;
mod tend;
mod view;
mod waits;
mod warned;
mod watching;

use crate::{
    domain::{ids::ReplicaId, limits::Limits},
    node::{Admission, Node, NodeUrl, doctor::Logged},
    store::{Notices, StoreError, chores::Chores},
    telemetry::{metrics::StoreMetrics, traces::Traces},
};
use admission::Demands;
use call::Commands;
use keys::BUCKETS;
use sender::Sender;
use std::sync::{Arc, atomic::AtomicU64};
use tokio::sync::{Notify, watch};
use uuid::Uuid;
use waits::Waits;
use warned::Warned;
use watching::Asked;

/// The layout of the data. Another number is another layout.
const LAYOUT: &str = "6";

/// The store in Redis.
pub struct RedisStore {
    node: Node,
    me: ReplicaId,
    notices: Arc<dyn Notices>,
    waits: Waits,
    chores: Chores,
    /// The highest token seen in each bucket. When a new life of Redis is met, the highest in any bucket becomes that
    /// of all.
    known: Box<[AtomicU64]>,
    admission: Admission<StoreError>,
    demands: Demands,
    /// The findings of the doctor that are in the log.
    logged: Logged,
    /// Hints may have been lost: poll now.
    resync: Notify,
    warned: Warned,
    asked: Asked,
    commands: &'static Commands,
    metrics: Arc<StoreMetrics>,
}

impl RedisStore {
    /// A store that is not connected yet: [`RedisStore::maintain`] connects it, and must run for as long as it is used.
    pub fn new(url: impl Into<NodeUrl>, limits: &Limits, notices: Arc<dyn Notices>) -> Self {
        Self::with_commands(url.into(), limits, notices, Commands::shared())
    }

    /// The same by another clock than Redis' own (`lua/lib/clock.lua`): for tests, to which time is a value.
    pub fn with_clock(url: impl Into<NodeUrl>, limits: &Limits, notices: Arc<dyn Notices>, clock: &str) -> Self {
        Self::with_commands(url.into(), limits, notices, Commands::leak(&format!("{clock}{}", scripts::LIFE), None))
    }

    fn with_commands(url: NodeUrl, limits: &Limits, notices: Arc<dyn Notices>, commands: &'static Commands) -> Self {
        let me = ReplicaId(Uuid::new_v4());
        let sender = Sender { replica: me, waiters_max: limits.waiters_per_lock };
        Self {
            node: Node::new(url, move |connection, bucket| sender.header(connection, bucket)),
            me,
            notices,
            waits: Waits::default(),
            chores: Chores::default(),
            known: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            admission: Admission::default(),
            demands: Demands::default(),
            logged: Logged::default(),
            resync: Notify::new(),
            warned: Warned::default(),
            asked: Asked::default(),
            commands,
            metrics: Arc::default(),
        }
    }

    /// The same, measured by these metrics and these traces.
    #[must_use]
    pub fn measured(mut self, metrics: Arc<StoreMetrics>, traces: Traces) -> Self {
        self.node = self.node.measured(metrics.clone(), traces);
        self.metrics = metrics;
        self
    }

    /// Serves also on a Redis that may evict leases, if that is allowed.
    #[must_use]
    pub fn allowing_eviction(mut self, allowed: bool) -> Self {
        self.demands.allow_eviction = allowed;
        self
    }

    /// Shares locks with clients of the classic recipe: the lock `NAME` is theirs as the key `prefix` + `NAME`. To be
    /// called once.
    #[must_use]
    pub fn beside_classic(mut self, prefix: &str) -> Self {
        self.commands = Commands::leak(scripts::PRESENT, Some(prefix));
        self.demands.classic = Some(prefix.to_owned());
        self
    }

    /// Whether Redis is there, and one that locks may be kept in.
    pub fn up(&self) -> watch::Receiver<bool> {
        self.admission.up()
    }
}
