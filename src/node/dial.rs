//! Makes connections. A deadpool-redis pool makes those of the links, counts them, and when a link hands one back it
//! asks whether that one still answers, or makes another. The subscriber's is made here too, with the same settings.

use super::{
    LINKS_PER_SERVER, RESPONSE_TIMEOUT, RedisUrl, batch::MakeHeader, connection::Link, handshake,
    reply::why_not_connected,
};
use deadpool_redis::{
    Connection, Manager, Pool, PoolError, Runtime, TimeoutType,
    redis::{
        AsyncConnectionConfig, Client, PushInfo, PushKind,
        aio::{MultiplexedConnection, SendError},
    },
};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// For TCP, TLS and the first words together.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);
/// Requests that may stand in line before one connection; more wait for a place, and their response timeout runs.
const REQUESTS_IN_LINE: usize = 1_024;

/// Knows the way to one Redis.
pub(super) struct Dialer {
    url: RedisUrl,
    pool: Result<Pool, String>,
    /// Counts connections that broke, so that whoever keeps one looks after it at once.
    pub(super) broken: Arc<watch::Sender<u64>>,
}

impl Dialer {
    pub(super) fn new(url: &RedisUrl) -> Self {
        let broken = Arc::new(watch::Sender::new(0));
        let reporter = Arc::clone(&broken);
        let config = config().set_push_sender(move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                reporter.send_modify(|count| *count += 1);
            }
            Ok::<(), SendError>(())
        });
        // The manager of deadpool-redis takes this config as it is; its own URL type would lose the TCP settings.
        let pool = Manager::new_with_config(url.info().clone(), config).map_err(|error| why_not_connected(&error));
        let pool = pool.and_then(|manager| {
            let limits = Pool::builder(manager).runtime(Runtime::Tokio1).max_size(LINKS_PER_SERVER);
            limits
                .wait_timeout(Some(CONNECTION_TIMEOUT))
                .create_timeout(Some(2 * CONNECTION_TIMEOUT))
                .recycle_timeout(Some(RESPONSE_TIMEOUT))
                .build()
                .map_err(|error| error.to_string())
        });
        Self { url: url.clone(), pool, broken }
    }

    pub(super) fn url(&self) -> &RedisUrl {
        &self.url
    }

    /// A link, and what keeps its place in the pool. An error says what happened, why, and what to do. Dropped, it
    /// leaves at most a connection that closes.
    pub(super) async fn link(&self, header: &MakeHeader) -> Result<(Connection, Link), String> {
        let pool = self.pool.as_ref().map_err(Clone::clone)?;
        let pooled = pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => why_not_connected(&error),
            PoolError::Timeout(TimeoutType::Wait) => "all connections to Redis are still in use".to_owned(),
            PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => "Redis did not answer in time".to_owned(),
            other @ (PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_)) => {
                other.to_string()
            }
        })?;
        let mut connection = MultiplexedConnection::clone(&pooled);
        let greeting = match handshake::greet(&mut connection).await {
            Ok(greeting) => handshake::may_run_scripts(&mut connection).await.map(|()| greeting),
            Err(why) => Err(why),
        };
        match greeting {
            Ok(greeting) => Ok((pooled, Link::new(connection, greeting, Arc::clone(header)))),
            Err(why) => {
                discard(pooled);
                Err(why)
            }
        }
    }

    /// A connection outside of the pool that gives its pushes to `sink`.
    pub(super) async fn listener(
        &self,
        sink: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<MultiplexedConnection, String> {
        let config = config().set_push_sender(move |push: PushInfo| {
            sink(push);
            Ok::<(), SendError>(())
        });
        let client = Client::open(self.url.info().clone()).map_err(|error| why_not_connected(&error))?;
        let made = client.get_multiplexed_async_connection_with_config(&config).await;
        made.map_err(|error| why_not_connected(&error))
    }
}

/// A connection that leads to the wrong place passes every PING: it must not go back to the pool.
pub(super) fn discard(pooled: Connection) {
    drop(Connection::take(pooled));
}

fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTION_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT))
        .set_pipeline_buffer_size(REQUESTS_IN_LINE)
}
