//! One node: a Redis primary, whatever is kept there.
//!
//! A server holds a few long-lived connections to it. All callers share them, and their commands are pipelined.
//!
//! - The server must know **which incarnation of Redis** it talks to, so nothing reconnects behind its back. A
//!   connection that breaks, does not answer its check, or leads to a replica is closed. A new [`Connection`] learns
//!   its [incarnation](Connection::incarnation) in the handshake, before any command is sent on it.
//! - No command is kept until Redis is back: without a connection it is refused at once.
//! - Where Sentinels or the members of a Redis Cluster say which Redis is the primary, a connection lives only as long
//!   as they name its Redis (`find`).
//! - A command whose reply did not come is not refused: its outcome is *unknown*. It is never sent again from here.
//!
//! A checkout from a pool costs two commands each time, a shared connection costs none. So the pool only makes, counts
//! and replaces connections, and commands go over clones of them. [`Node::run`] polls everything that runs in the
//! background.

mod backoff;
mod connection;
mod dial;
pub mod doctor;
mod error;
mod files;
mod find;
mod handshake;
mod login;
mod pushes;
mod reconnect;
mod reply;
mod script;
mod tls;
mod url;

pub use connection::Connection;
/// A reply of Redis. The connection speaks RESP3, but a script that does not ask for it replies as in RESP2: numbers,
/// texts, nil (also for `false`) and arrays.
pub use deadpool_redis::redis::Value;
pub use error::NodeError;
pub use files::{NodeFile, NodeFileProblem};
pub use find::{ClusterUrl, NodeUrl, SentinelUrl};
pub use handshake::{Incarnation, ServerInfo};
pub use login::Login;
pub use pushes::{PUSHES_BACKLOG_BYTES_MAX, PUSHES_BACKLOG_MAX, Push, PushSender, Pushes};
pub use script::{Arg, Script, ScriptCall};
pub use tls::TlsFiles;
pub use url::RedisUrl;

pub(crate) use reply::script_error;

use crate::{
    sync::{Mutex, RwLock},
    telemetry::metrics::StoreMetrics,
};
use dial::Dialer;
use futures_util::future::{join_all, join3};
use pushes::Subscription;
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Connections of a server to a node that carry commands. Each is driven by one task and so by one core; Redis itself
/// runs scripts on one.
pub const CONNECTIONS_PER_NODE: usize = 4;
/// How long a command waits for its reply, from the moment it is sent.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
/// How often a connection is checked when nothing else gives a reason to. Each pause is drawn at random, from half of
/// this to all of it.
const CHECK_PERIOD: Duration = Duration::from_secs(5);
/// How many reasons of one outage are logged: the loss of Redis, and a few more that show why it stays away.
const REASONS_LOGGED_MAX: usize = 4;

/// The connections to one Redis primary.
pub struct Node {
    dialer: Dialer,
    connections: [RwLock<Option<Arc<Connection>>>; CONNECTIONS_PER_NODE],
    up: watch::Sender<bool>,
    outage: Mutex<Outage>,
    subscription: watch::Sender<Option<Subscription>>,
    metrics: Arc<StoreMetrics>,
}

/// Why no connection is up.
#[derive(Debug)]
struct Outage {
    why: String,
    /// The reasons that are in the log.
    logged: Vec<String>,
}

impl Node {
    /// A node without connections: [`Self::run`] makes them. Needs neither a Redis nor a runtime.
    pub fn new(url: impl Into<NodeUrl>) -> Self {
        Self {
            dialer: Dialer::new(url.into()),
            connections: [const { RwLock::new(None) }; CONNECTIONS_PER_NODE],
            up: watch::Sender::new(false),
            outage: Mutex::new(Outage {
                why: "the server has not connected to Redis yet".to_owned(),
                logged: Vec::new(),
            }),
            subscription: watch::Sender::new(None),
            metrics: Arc::default(),
        }
    }

    /// The same, measured by these metrics. To be called before [`Self::run`].
    #[must_use]
    pub fn measured(self, metrics: Arc<StoreMetrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Keeps the connections up. Never ends; one task is to poll it for as long as the node is used. Dropped, it closes
    /// all connections; commands in flight may still run.
    pub async fn run(&self) {
        let slots = (0..CONNECTIONS_PER_NODE).map(|slot| reconnect::keep_connected(self, slot));
        // Boxed, so that the future of a server that has this in it stays small.
        join3(join_all(slots), Box::pin(self.listen()), Box::pin(self.dialer.follow())).await;
    }

    /// The connection of this number (modulo [`CONNECTIONS_PER_NODE`]), or another one while that is down. It stays the
    /// same for as long as it lives. With none up the error is `Unavailable`, at
    /// once, with the reason.
    pub fn connection(&self, number: usize) -> Result<Arc<Connection>, NodeError> {
        let first = number % CONNECTIONS_PER_NODE;
        let slots = self.connections[first..].iter().chain(&self.connections[..first]);
        // A closed one is replaced in a moment.
        let is_open = |connection: &Arc<Connection>| connection.closed().is_none();
        let mut open = slots.filter_map(|slot| slot.read().as_ref().filter(|it| is_open(it)).map(Arc::clone));
        open.next().ok_or_else(|| NodeError::Unavailable(self.outage.lock().why.clone()))
    }

    /// Its URL.
    pub fn url(&self) -> &NodeUrl {
        self.dialer.url()
    }

    /// Whether any connection is up, for health.
    pub fn up(&self) -> watch::Receiver<bool> {
        self.up.subscribe()
    }

    /// Subscribes to a channel, over a connection of its own that [`Self::run`] keeps up. The first push is
    /// [`Push::Resync`], when the subscription has begun. There is one subscription: a second call ends the first.
    pub fn subscribe(&self, channel: &str) -> Pushes {
        let (subscription, pushes) = pushes::subscription(channel);
        self.subscription.send_replace(Some(subscription));
        pushes
    }

    async fn listen(&self) {
        let mut newest = self.subscription.subscribe();
        loop {
            let subscription = newest.borrow_and_update().clone();
            let listening = async {
                if let Some(subscription) = &subscription {
                    pushes::keep_subscribed(&self.dialer, subscription).await;
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                _ = newest.changed() => {}
                () = listening => {}
            }
        }
    }

    /// Notes that a connection is up, and logs it if it is the first.
    fn report_up(&self, connection: &Connection) {
        self.outage.lock().logged.clear();
        if !self.up.send_replace(true) {
            let ServerInfo { name, version, .. } = connection.info();
            let incarnation = connection.incarnation().0;
            let found = (!matches!(self.url(), NodeUrl::Redis(_))).then(|| connection.address());
            tracing::info!(url = %self.dialer.url(), found, name, version, %incarnation, "connected to redis");
        }
    }

    /// Notes why no connection is up. False if one is.
    fn mark_down(&self, why: &str) -> bool {
        if self.connections.iter().any(|slot| slot.read().is_some()) {
            return false;
        }
        self.up.send_replace(false);
        why.clone_into(&mut self.outage.lock().why);
        true
    }

    /// The same for a failure: logs the outage once, and its further reasons once each. (One task polls all slots, so
    /// nothing comes between the check and the log.)
    fn report_down(&self, why: &str) {
        if !self.mark_down(why) {
            return;
        }
        let mut outage = self.outage.lock();
        let url = self.dialer.url();
        if outage.logged.is_empty() {
            tracing::warn!(%url, why, "redis cannot be used: requests that need it fail until it recovers");
        } else if outage.logged.len() < REASONS_LOGGED_MAX && !outage.logged.iter().any(|logged| logged == why) {
            tracing::info!(%url, why, "redis still cannot be used");
        } else {
            return;
        }
        outage.logged.push(why.to_owned());
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let incarnations = self.connections.each_ref().map(|slot| slot.read().as_ref().map(|it| it.incarnation()));
        out.debug_struct("Node")
            .field("url", self.dialer.url())
            .field("connections", &incarnations)
            .finish_non_exhaustive()
    }
}
