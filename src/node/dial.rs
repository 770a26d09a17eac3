//! Makes connections. A deadpool pool counts those that carry commands; when one is given back, the pool checks whether
//! it still answers, or makes another. The connection for pushes is made here too, with the same settings.

use super::{
    CONNECTIONS_PER_NODE, NodeFileProblem, NodeUrl, RESPONSE_TIMEOUT, RedisUrl, ServerInfo, connection::Connection,
    find::Finder, handshake, login::LoggedIn, reply::connect_error,
};
use crate::{
    sync::Mutex,
    telemetry::metrics::{RoundTrip, StoreMetrics},
};
use deadpool::{
    Runtime,
    managed::{Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult, TimeoutType},
};
use deadpool_redis::redis::{
    AsyncConnectionConfig, Client, PushInfo, PushKind, RedisError,
    aio::{MultiplexedConnection, SendError},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// For TCP, TLS and authentication together.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);
/// Requests that may wait to be written to one connection; more wait for room, and their response timeout runs.
const WRITE_BUFFER: usize = 1_024;

/// A connection that the pool counts.
pub(super) type Pooled = Object<Maker>;

/// A connection, and where it leads: `host:port`, or `host:port/database`.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) connection: MultiplexedConnection,
    pub(super) address: Arc<str>,
    /// What it was authenticated with, if that is in a file.
    logged_in: Option<LoggedIn>,
}

/// Makes connections to one Redis.
pub(super) struct Dialer {
    url: Box<NodeUrl>,
    pub(super) finder: Arc<Finder>,
    pool: Result<Pool<Maker>, String>,
    /// Counts connections that broke, so that the others are checked at once.
    pub(super) broken: Arc<watch::Sender<u64>>,
    /// Why a password could not be renewed, as it was logged last.
    not_renewed: Mutex<Option<String>>,
}

impl Dialer {
    pub(super) fn new(url: NodeUrl) -> Self {
        let finder = Arc::new(Finder::new(&url));
        let broken = Arc::new(watch::Sender::new(0));
        let reporter = Arc::clone(&broken);
        let config = config().set_push_sender(move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                reporter.send_modify(|count| *count += 1);
            }
            Ok::<(), SendError>(())
        });
        let pool = Maker::new(&url, Arc::clone(&finder), config).and_then(|maker| {
            let limits = Pool::builder(maker).runtime(Runtime::Tokio1).max_size(CONNECTIONS_PER_NODE);
            limits
                .wait_timeout(Some(CONNECTION_TIMEOUT))
                .create_timeout(Some(finder.time_max() + 2 * CONNECTION_TIMEOUT))
                .recycle_timeout(Some(finder.time_max() + RESPONSE_TIMEOUT))
                .build()
                .map_err(|error| error.to_string())
        });
        Self { url: Box::new(url), finder, pool, broken, not_renewed: Mutex::default() }
    }

    pub(super) fn url(&self) -> &NodeUrl {
        &self.url
    }

    /// Whether it leads to a member of a Redis Cluster.
    pub(super) fn is_in_cluster(&self) -> bool {
        self.url.settings().is_in_cluster()
    }

    /// Asks a Redis what it is, which has to be the primary that was found. Before that, the connection authenticates
    /// again if its password has changed.
    pub(super) async fn greet(&self, made: &mut Made) -> Result<ServerInfo, String> {
        if let Some(logged_in) = &mut made.logged_in {
            self.report(logged_in.renew(&mut made.connection).await);
        }
        handshake::greet(&mut made.connection, &self.url.settings().at(&made.address)?).await
    }

    /// Logs once for all connections why a new password is not used.
    fn report(&self, renewed: Result<(), String>) {
        let Err(why) = renewed else { return };
        let mut reported = self.not_renewed.lock();
        if reported.as_ref() != Some(&why) {
            let url = self.url();
            tracing::warn!(%url, why, "redis password cannot be renewed: open connections keep the old one");
            *reported = Some(why);
        }
    }

    /// Keeps what is known about the primary current. Never ends.
    pub(super) async fn follow(&self) {
        self.finder.follow(|| self.broken.send_modify(|count| *count += 1)).await;
    }

    /// Makes a connection for commands. The pooled one beside it keeps its place in the pool. The error says what
    /// happened, why, and what to do. Dropped, it leaves at most a connection that closes.
    pub(super) async fn connect(&self, metrics: &Arc<StoreMetrics>) -> Result<(Pooled, Connection), String> {
        let pool = self.pool.as_ref().map_err(Clone::clone)?;
        let mut pooled = pool.get().await.map_err(|error| match error {
            PoolError::Backend(why) => why,
            PoolError::Timeout(TimeoutType::Wait) => "all connections to Redis are still in use".to_owned(),
            PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => "Redis did not answer in time".to_owned(),
            other @ (PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_)) => {
                other.to_string()
            }
        })?;
        metrics.round_trips.of(RoundTrip::Check).inc();
        let greeted = match self.greet(&mut pooled).await {
            Ok(info) => handshake::prepare_scripts(&mut pooled.connection, info).await,
            Err(why) => Err(why),
        };
        let made = Made::clone(&pooled);
        match greeted {
            Ok(info) => Ok((pooled, Connection::new(made, self.is_in_cluster(), info, Arc::clone(metrics)))),
            Err(why) => {
                discard(pooled);
                Err(self.finder.explain(&made.address, why))
            }
        }
    }

    /// Makes a connection outside of the pool, without a handshake, that gives its pushes to `sink`.
    pub(super) async fn connect_outside(
        &self,
        sink: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<Made, String> {
        let config = config().set_push_sender(move |push: PushInfo| {
            sink(push);
            Ok::<(), SendError>(())
        });
        make(&self.finder, &config).await
    }
}

/// Makes the connections of the pool. The manager of deadpool-redis would keep the files for TLS as they were at the
/// start; it checks the connections.
pub(super) struct Maker {
    finder: Arc<Finder>,
    config: AsyncConnectionConfig,
    checks: deadpool_redis::Manager,
}

impl Maker {
    fn new(url: &NodeUrl, finder: Arc<Finder>, config: AsyncConnectionConfig) -> Result<Self, String> {
        let checks = deadpool_redis::Manager::new(url.settings().info().clone());
        let checks = checks.map_err(|error| connect_error(&error))?;
        Ok(Self { finder, config, checks })
    }
}

impl Manager for Maker {
    type Type = Made;
    /// What happened, why, and what to do.
    type Error = String;

    async fn create(&self) -> Result<Made, String> {
        make(&self.finder, &self.config).await
    }

    async fn recycle(&self, made: &mut Made, metrics: &Metrics) -> RecycleResult<String> {
        let found = self.finder.find().await.map_err(RecycleError::message)?;
        if found.address() != &*made.address {
            return Err(RecycleError::message("the primary has changed"));
        }
        let checked = self.checks.recycle(&mut made.connection, metrics).await;
        checked.map_err(|error| RecycleError::message(error.to_string()))
    }
}

/// Finds the primary and connects to it.
async fn make(finder: &Finder, config: &AsyncConnectionConfig) -> Result<Made, String> {
    let url = finder.find().await?;
    try_open(&url, config).await.map_err(|why| finder.explain(url.address(), why.words(&url)))
}

/// Why there is no connection.
pub(super) enum Unopened {
    /// One of the files cannot be used.
    File(NodeFileProblem),
    /// Redis, or the way to it.
    Redis(RedisError),
}

impl Unopened {
    /// What happened at this URL, why, and what to do.
    pub(super) fn words(&self, url: &RedisUrl) -> String {
        match self {
            Self::File(problem) => format!("no connection to Redis: the file {problem}"),
            Self::Redis(error) => match connect_error(error) {
                // Redis waits for the rest of what it takes for a command.
                why if url.tls() && error.is_timeout() => format!(
                    "{why}; or the port does not speak TLS: then write redis:// in the URL, or name the TLS port"
                ),
                why => why,
            },
        }
    }
}

/// Makes one connection, with the files as they are now.
pub(super) async fn try_open(url: &RedisUrl, config: &AsyncConnectionConfig) -> Result<Made, Unopened> {
    let (settings, logged_in) = url.settings().map_err(Unopened::File)?;
    let client = Client::open(settings).map_err(Unopened::Redis)?;
    let connection = client.get_multiplexed_async_connection_with_config(config).await.map_err(Unopened::Redis)?;
    Ok(Made { connection, address: url.address().into(), logged_in })
}

/// Keeps a connection out of the pool: one that leads to the wrong address answers every PING.
pub(super) fn discard(pooled: Pooled) {
    drop(Pooled::take(pooled));
}

/// The settings of every connection.
pub(super) fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTION_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT))
        .set_pipeline_buffer_size(WRITE_BUFFER)
}
