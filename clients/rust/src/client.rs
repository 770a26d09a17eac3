//! The client and its builder.

use crate::acquire::Acquire;
use crate::acquire_all::AcquireAll;
use crate::acquire_error::AcquireError;
use crate::address::{AddressError, ServerAddress, is_loopback};
use crate::bearer::Bearer;
use crate::bounds::RETRY_FOR_DEFAULT;
use crate::calls::Calls;
use crate::clock::Moment;
use crate::core::Core;
use crate::environment;
use crate::keeper::Keeper;
use crate::lease::LeaseState;
use crate::lock::Lock;
use crate::mode::Mode;
use crate::servers::{Server, Servers};
use crate::set_item::SetItem;
use crate::status::LossCause;
use crate::tls::{Tls, TlsFileError};
use crate::validate;
use crate::validity::Reading;
use crate::values::Lease;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tonic::transport::Endpoint;

/// A client of a Fencepost server and its replicas. Cheap to clone; clones share the connections and the one session on
/// which their locks are acquired, renewed and released.
///
/// Background tasks run on the tokio runtime that the client was built in: locks are renewed only while it runs.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let core = &self.shared.core;
        f.debug_struct("Client").field("servers", &core.servers).field("holder", &core.holder).finish_non_exhaustive()
    }
}

/// Dropped with the last client and the last lock.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) core: Arc<Core>,
    pub(crate) keeper: Arc<Keeper>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.keeper.client_gone();
    }
}

impl Client {
    /// Creates a client of the servers that the environment names: those in `FENCEPOST_SERVER`, separated by commas, or
    /// else 127.0.0.1:7420. `FENCEPOST_CA`, `FENCEPOST_CERT`, `FENCEPOST_KEY` and `FENCEPOST_CREDENTIALS` name files.
    /// Short for `Client::builder().build()`. Connects on first use.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::builder().build()
    }

    /// Creates a client of one server, such as `127.0.0.1:7420` ([`ServerAddress`]), or of several, separated by
    /// commas. Connects on first use.
    pub fn new(server: impl Into<String>) -> Result<Self, ConfigError> {
        Self::builder().server(server).build()
    }

    /// Creates a builder, for several servers or other settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Prepares to acquire a lock: set options, then await it, or [`run`](Acquire::run) a body under it. Without
    /// [`wait`](Acquire::wait) it is a try-acquire, which fails at once if somebody else holds the lock.
    ///
    /// ```no_run
    /// # async fn example(client: fencepost_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let lock = client.acquire("orders/42").ttl(Duration::from_secs(10)).wait(Duration::from_secs(60)).await?;
    /// // Send lock.token() with every write.
    /// lock.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn acquire(&self, lock_name: impl Into<String>) -> Acquire {
        Acquire::new(self.clone(), lock_name.into())
    }

    /// Acquires a lock if it is free; `None` if somebody else holds it. For options, or to know who holds it, use
    /// [`acquire`](Self::acquire) without [`wait`](Acquire::wait).
    ///
    /// ```no_run
    /// # async fn example(client: fencepost_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(lock) = client.try_acquire("reports/nightly").await? {
    ///     // Send lock.token() with every write.
    ///     lock.release().await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(&self, lock_name: impl Into<String>) -> Result<Option<Lock>, AcquireError> {
        match self.acquire(lock_name).await {
            Ok(lock) => Ok(Some(lock)),
            Err(AcquireError::Contended { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Prepares to acquire several locks together, all of them or none: set options, then await it. Names are 1 to 64;
    /// one that is given twice counts once. A name alone asks for an exclusive lock, and a [`SetItem`] for a shared
    /// one.
    ///
    /// The locks are acquired one after another, in the order of the bytes of their names, in which all clients acquire
    /// them: so no two calls wait for each other in a circle. It is not one step: others see that some are held, and
    /// those are held while later ones are waited for. [`try_all`](Self::try_all) does not do that.
    ///
    /// ```no_run
    /// # async fn example(client: fencepost_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let locks = client.acquire_all(["accounts/7", "accounts/9"]).wait(Duration::from_secs(60)).await?;
    /// for lock in &locks {
    ///     println!("{} {}", lock.name(), lock.token()); // send each token with the writes under its lock
    /// }
    /// locks.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn acquire_all<I>(&self, names: I) -> AcquireAll
    where
        I: IntoIterator,
        I::Item: Into<SetItem>,
    {
        AcquireAll::new(self, names.into_iter().map(Into::into).collect(), false)
    }

    /// Prepares to acquire several locks when all of them are free at the same moment. It never waits for one lock
    /// while it holds another: it tries to acquire all, and if one is not free it gives back what it has and tries
    /// again after a random pause of up to a second, until [`wait`](AcquireAll::wait) is over. So it holds up nobody,
    /// and it may come too late again and again if the locks are rarely free. Then it fails with
    /// [`AcquireError::Contended`] as the cause.
    pub fn try_all<I>(&self, names: I) -> AcquireAll
    where
        I: IntoIterator,
        I::Item: Into<SetItem>,
    {
        AcquireAll::new(self, names.into_iter().map(Into::into).collect(), true)
    }

    /// Renews a lease that was acquired through [`calls`](Self::calls) or handed over by another process.
    ///
    /// `sent_at` and `held_for` must come from the answer that `lease.ttl` was taken from
    /// ([`acquire_timed`](Calls::acquire_timed), [`renew_timed`](Calls::renew_timed)). If the lease is no longer valid
    /// by these values, the lock is lost from the start. Only one process may renew a lease: the previous one must have
    /// stopped ([`Lock::into_lease`]).
    ///
    /// The lock is also lost from the start, with [`LossCause::Invalid`], if the lock name (1 to 512 bytes without
    /// control characters) or the lease id (a UUID) is malformed: a server would refuse the whole message, and the
    /// other leases of this client in it.
    ///
    /// ```no_run
    /// # async fn example(client: fencepost_client::Client, lock_name: String, lease_id: String) -> Option<()> {
    /// use fencepost_client::{Lease, raw::v1};
    /// let request = v1::RenewRequest { lock_name: lock_name.clone(), lease_id: lease_id.clone(), ttl: None };
    /// let answer = client.calls().renew_timed(request).await.ok()?;
    /// let (ttl, token) = (answer.message.ttl?.try_into().ok()?, answer.message.fencing_token);
    /// let held_for = answer.message.held_for.and_then(|time| time.try_into().ok()).unwrap_or_default();
    /// let lease = Lease { lock_name, lease_id, token, ttl, ..Default::default() };
    /// let lock = client.keep(lease, answer.sent_at, held_for);
    /// # drop(lock); Some(()) }
    /// ```
    pub fn keep(&self, lease: Lease, sent_at: Moment, held_for: Duration) -> Lock {
        let reading = Reading { sent: sent_at, read: Moment::now(), held_for, ttl: lease.ttl };
        let (validate, permits) = (validate::check(&lease), lease.permits);
        let mut state = LeaseState::new(self.shared.core.next_key(), lease, reading);
        if let Err(rule) = validate {
            tracing::warn!(rule, "cannot keep this lease");
            state = state.already_lost(LossCause::Invalid);
        }
        let mut lock = Lock::start(self.shared.clone(), Arc::new(state), None);
        lock.set_permits(permits);
        if permits > 0 {
            lock.asked_for(Mode::Semaphore);
        }
        lock
    }

    /// The raw calls of the API, with the types of the wire ([`raw`](crate::raw)).
    pub fn calls(&self) -> Calls {
        Calls { core: self.shared.core.clone() }
    }

    /// Waits for the background releases and cleanups of dropped locks and dropped acquires. Each is bounded by
    /// [`ClientBuilder::retry_for`] and one call. Call it before the process ends, so that others need not wait for a
    /// TTL.
    pub async fn flush(&self) {
        self.shared.core.flushed().await;
    }
}

/// The upper bound of both time settings.
const BOUND_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Settings of a [`Client`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ClientBuilder {
    servers: Vec<Target>,
    tls: Option<Tls>,
    bearer: Bearer,
    holder: Option<String>,
    call_timeout: Duration,
    retry_for: Duration,
}

#[derive(Clone, Debug)]
enum Target {
    Address(String),
    Endpoint(Box<Endpoint>),
}

impl Default for ClientBuilder {
    fn default() -> Self {
        let (call_timeout, retry_for) = (Duration::from_secs(5), RETRY_FOR_DEFAULT);
        Self { servers: Vec::new(), tls: None, bearer: Bearer::default(), holder: None, call_timeout, retry_for }
    }
}

impl ClientBuilder {
    /// Adds a server: one replica of the service, or several, separated by commas. The client stays with a server until
    /// it fails.
    ///
    /// The address is `host:port`, `https://host:port` for TLS, or `unix:/path`; the default port is 7420
    /// ([`ServerAddress`]). If no server is added, the client uses those in `FENCEPOST_SERVER`, or else 127.0.0.1:7420.
    pub fn server(mut self, address: impl Into<String>) -> Self {
        self.servers.extend(address.into().split(',').map(|one| Target::Address(one.to_owned())));
        self
    }

    /// Authorities and client certificate for `https://` servers. Without it the files that `FENCEPOST_CA`,
    /// `FENCEPOST_CERT` and `FENCEPOST_KEY` name are used. Without these the machine's root certificates are trusted,
    /// and the client shows no certificate.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sends a bearer token with each call and each stream. The provider is asked before each of them, so that a token
    /// can be replaced before it expires; it must not block. If it fails, nothing is sent, and the call fails with
    /// UNAUTHENTICATED. The token is sent only over TLS, to a Unix socket, or to this machine:
    /// [`build`](Self::build) refuses other servers. Without it, the token in the file that `FENCEPOST_CREDENTIALS`
    /// names is sent.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), fencepost_client::ConfigError> {
    /// let client = fencepost_client::Client::builder()
    ///     .server("https://locks.internal")
    ///     .bearer_token(|| Ok(std::fs::read_to_string("/run/secrets/token")?.trim().to_owned()))
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn bearer_token<F>(mut self, provider: F) -> Self
    where
        F: Fn() -> Result<String, Box<dyn std::error::Error + Send + Sync>> + Send + Sync + 'static,
    {
        self.bearer = Bearer::new(provider);
        self
    }

    /// Adds a server with connection settings of tonic, a type of the wire ([`raw`](crate::raw)); [`tls`](Self::tls)
    /// does not apply to it. Keep HTTP/2 pings on, with short timeouts: they are how a waiting call detects a dead
    /// connection.
    pub fn raw_endpoint(mut self, endpoint: Endpoint) -> Self {
        self.servers.push(Target::Endpoint(Box::new(endpoint)));
        self
    }

    /// The default label of grants: `user@host:pid` of this process unless set. Others see it when they ask who holds a
    /// lock.
    pub fn holder(mut self, label: impl Into<String>) -> Self {
        self.holder = Some(label.into());
        self
    }

    /// How long one transmission of a call may take, in addition to its wait time: 5 s by default, at most 24 h. For a
    /// call that does not wait, each of several servers gets no more than its part of [`retry_for`](Self::retry_for),
    /// and at least 500 ms: one that hangs must not use up the time of the others.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout.min(BOUND_MAX);
        self
    }

    /// How long a call is retried while its outcome is unknown, in addition to its wait time: 10 s by default, at most
    /// 24 h.
    pub fn retry_for(mut self, bound: Duration) -> Self {
        self.retry_for = bound.min(BOUND_MAX);
        self
    }

    /// Builds the client. Needs a tokio runtime with time and I/O enabled; no server needs to be running.
    pub fn build(mut self) -> Result<Client, ConfigError> {
        let runtime = Handle::try_current().map_err(|_| ConfigError::NoRuntime)?;
        if self.servers.is_empty() {
            self = self.server(environment::servers());
        }
        if !self.bearer.is_set() {
            self.bearer = environment::bearer();
        }
        let tls = Arc::new(self.tls.map_or_else(environment::tls, Ok)?);
        let holder = self.holder.unwrap_or_else(environment::holder);
        let private = |is_private: bool, address: &dyn ToString| {
            let refused = !is_private && self.bearer.is_set();
            if refused { Err(ConfigError::TokenInPlainText { address: address.to_string() }) } else { Ok(()) }
        };
        let server = |target| match target {
            Target::Endpoint(endpoint) => {
                let uri = endpoint.uri();
                let is_tls = uri.scheme_str() == Some("https");
                private(is_tls || uri.host().is_some_and(is_loopback), uri)?;
                Ok(Server::with(endpoint))
            }
            Target::Address(text) => {
                let address: ServerAddress = text.parse()?;
                check_tls(&address, &tls)?;
                private(address.is_private(), &address)?;
                Server::at(address, &tls)
            }
        };
        let servers = self.servers.into_iter().map(server).collect::<Result<_, ConfigError>>()?;
        let servers = Servers::new(servers, self.bearer.clone());
        let core = Arc::new(Core::new(servers, runtime, holder, self.call_timeout, self.retry_for));
        Ok(Client { shared: Arc::new(Shared { keeper: Keeper::new(core.clone()), core }) })
    }
}

/// Reads the files of TLS once, so that problems are found before the first connection.
fn check_tls(address: &ServerAddress, tls: &Tls) -> Result<(), ConfigError> {
    if address.is_tls() {
        tls.load()?;
    } else if !tls.is_default() && !address.is_unix() {
        return Err(ConfigError::NotTls { address: address.to_string() });
    }
    Ok(())
}

/// Why a client could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A server address is invalid.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The transport rejects a server address.
    #[error("cannot use the server address {address}: {why}")]
    Endpoint {
        /// The address.
        address: String,
        /// The transport's reason.
        why: String,
    },
    /// A certificate needs its key, and a key its certificate, but the environment names only one of them.
    #[error("the client certificate is incomplete: set {missing} as well")]
    Incomplete {
        /// The variable that is not set.
        missing: &'static str,
    },
    /// A file of [`ClientBuilder::tls`] cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsFileError),
    /// [`ClientBuilder::tls`] was set, and a server is to be called without TLS: by mistake, secrets would be sent in
    /// plain text.
    #[error("TLS settings are given, but {address} is an address without TLS: write https://{address}")]
    NotTls {
        /// The address.
        address: String,
    },
    /// A bearer token would be sent over the network in plain text ([`ClientBuilder::bearer_token`]).
    #[error("a bearer token is given, but {address} is an address without TLS on another machine: write https://")]
    TokenInPlainText {
        /// The address.
        address: String,
    },
    /// [`ClientBuilder::build`] was called outside a tokio runtime.
    #[error("a client needs a tokio runtime to be built in")]
    NoRuntime,
}
