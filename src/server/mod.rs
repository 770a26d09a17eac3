//! The server: listens, serves, and drains.

mod accept;
mod access;
mod admin;
mod audit;
mod backlog;
mod drain;
mod faults;
mod fetch;
mod grants;
mod health;
mod http2;
mod issuer_keys;
mod layers;
mod listen;
mod open_files;
mod refusals;
mod tls;
mod turns;

pub use admin::bind_admin;
pub use faults::bind_faults;
pub use listen::{ListenError, Listeners, bind};

use crate::{
    access::Access,
    api::{self, Api, Faults, Guard, StoreIdentity},
    clock::ProcessClock,
    config::{AdminPlace, Config, ConfigError, Problem, StoreLogin, StoreTls, StoreUrl},
    locks::{Hub, Locks},
    node::{Login, NodeFile, NodeFileProblem, NodeUrl, TlsFiles},
    store::{
        MemoryStore, Store,
        quorum::{ClusterStore, nodes::addresses::Addresses},
    },
    telemetry::{
        audit::Audit,
        metrics::{AccessMetrics, ConnectionMetrics, Metrics},
        traces::{Source, Traces},
    },
};
use accept::{Admission, Gate, connections};
use admin::{Admin, Build, Callers, Hosts, Pages};
use axum::Router;
use backlog::Backlogs;
use grants::AuditedGrants;
use health::Health;
use http2::Http2;
use issuer_keys::IssuerKeys;
use layers::{
    BrokenOffLayer, CallsLayer, ContentTypeLayer, DeadlineLayer, OpenCalls, RequestTimeLayer, TracesLayer,
    UnreadableLayer,
};
use refusals::Refusals;
use std::{
    convert::Infallible,
    future::{Future, pending, ready},
    sync::Arc,
    time::Duration,
};
use tls::Tls;
use tokio::{net::TcpListener, sync::watch, time::timeout};
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceBuilder;

/// How long the store has, after the drain, for cleanups and for releases whose clients did not wait for the answer.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(1);

/// The server failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Traces cannot be exported to this endpoint.
    #[error("--otlp-endpoint: {0}")]
    Traces(String),
    /// The URL of the store cannot be used.
    #[error("--store: {0}")]
    StoreUrl(String),
    /// A file for TLS towards the store cannot be used, or the audit log cannot be written.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// The descriptors compiled into the server do not load.
    #[error("server reflection cannot be set up: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// The open ports of a server.
#[derive(Debug)]
pub struct Ports {
    /// The API: see [`bind`].
    pub api: Listeners,
    /// The admin port: see [`bind_admin`].
    pub admin: Vec<TcpListener>,
    /// The port of faults: see [`bind_faults`].
    pub faults: Vec<TcpListener>,
}

/// Serves on `ports` until `shutdown` resolves or an operator drains the server. Then drains, within the configured
/// drain timeout and three seconds. The admin port closes last.
///
/// Dropped, it stops accepting; open connections end with the runtime.
pub async fn serve(
    config: Config,
    mut ports: Ports,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let config = Config { connections_max: open_files::connections_within_limit(config.connections_max), ..config };
    let metrics = Arc::new(Metrics::new(Build::with(&config.store).facts()));
    let audit = audit::start(ports.api.audit.take(), &config, metrics.audit.clone())?;
    let hub = Arc::new(hub(&config, audit.as_ref()));
    let traces = traces(&config, &metrics)?;
    let kind = Build::with(&config.store).store();
    let measured = metrics.clone();
    let server = |store| Server { config: &config, ports, store, metrics: measured, traces, audit };
    match &config.store {
        StoreUrl::Redis(urls) => {
            let urls = urls
                .iter()
                .map(|url| store_url(url, &config.store_tls, &config.store_login))
                .collect::<Result<Vec<_>, _>>()?;
            let addresses =
                Addresses::new(urls).of_store(&config.store_prefix).allowing_eviction(config.allow_eviction);
            let addresses = addresses.sharing(!config.classic_prefix.is_empty());
            let (addresses, clock) = (addresses.measured(&metrics.store), Arc::new(ProcessClock::start()));
            let members = addresses.members();
            let store = ClusterStore::new(addresses, members, clock, &config.limits, hub.clone());
            let store = store.measured(metrics.partitions.clone(), metrics.store.clone());
            let store = Arc::new(store.beside_classic(&config.classic_prefix));
            let locks = Arc::new(Locks::new(store.clone(), hub, config.limits.clone()).measured(metrics.locks.clone()));
            let identified = store.clone();
            let server = server(StoreIdentity::new(kind, move || identified.id()));
            let cleanup = async {
                let _ = timeout(CLEANUP_TIMEOUT, store.chores_done()).await;
                store.leave().await;
            };
            tokio::select! {
                served = server.serve(&locks, store.up(), shutdown, cleanup) => served,
                () = in_a_task(store.clone()) => Ok(()),
            }
        }
        StoreUrl::Memory => {
            // Nobody shares it.
            let id = uuid::Uuid::new_v4().as_u128();
            let server = server(StoreIdentity::new(kind, move || Some(id)));
            let clock = Arc::new(ProcessClock::start());
            let store = Arc::new(MemoryStore::new(clock, &config.limits, hub.clone()));
            let locks = Arc::new(Locks::new(store.clone(), hub, config.limits.clone()).measured(metrics.locks.clone()));
            tokio::select! {
                served = server.serve(&locks, always_up(), shutdown, ready(())) => served,
                () = store.run_expiry() => Ok(()),
            }
        }
    }
}

/// The hub, which passes grants and ends of leases to the audit log if that is to have them.
fn hub(config: &Config, audit: Option<&Arc<Audit>>) -> Hub {
    match audit.filter(|_| config.audit_grants) {
        Some(audit) => Hub::new().audited(Arc::new(AuditedGrants(audit.clone()))),
        None => Hub::new(),
    }
}

/// Runs the store in a task of its own, on the threads that carry out calls: the thread that waits for the server is
/// another one, and to wake it at every batch would cost more than the batch.
async fn in_a_task(store: Arc<ClusterStore<Addresses>>) {
    let task = AbortOnDropHandle::new(tokio::spawn(async move { store.run().await }));
    if let Err(panicked) = task.await {
        std::panic::resume_unwind(panicked.into_panic());
    }
}

/// The Redis at this URL, or its Sentinels, with its files, which are checked.
pub fn store_url(url: &str, files: &StoreTls, login: &StoreLogin) -> Result<NodeUrl, ServeError> {
    let StoreTls { ca, cert, key } = files.clone();
    let url = NodeUrl::parse(url).map_err(ServeError::StoreUrl)?;
    // Only those with TLS can have any; that one of a store has it was checked.
    let url = if url.tls() { url.with_tls(TlsFiles { ca, cert, key }) } else { Ok(url) };
    let with_login = |url: NodeUrl| match &login.password_file {
        Some(file) => url.with_login(Login::new(&login.user, file)),
        None => Ok(url),
    };
    url.and_then(with_login).map_err(|NodeFileProblem { file, path, why }| {
        let option = match file {
            NodeFile::Ca => "store_ca",
            NodeFile::Cert => "store_cert",
            NodeFile::Key => "store_key",
            NodeFile::Password => "store_password_file",
        };
        let problem = Problem { at: option.to_owned(), value: path.display().to_string(), rule: why };
        ServeError::File(ConfigError { problems: vec![problem] })
    })
}

/// Traces to the configured collector, if there is one.
fn traces(config: &Config, metrics: &Metrics) -> Result<Traces, ServeError> {
    if config.otlp_endpoint.is_empty() {
        return Ok(Traces::default());
    }
    let instance = uuid::Uuid::new_v4().to_string();
    let source = Source { name: "fencepost", version: env!("CARGO_PKG_VERSION"), instance: &instance };
    let traces = Traces::export(&config.otlp_endpoint, source, metrics.traces.clone());
    traces.map_err(|error| ServeError::Traces(error.to_string()))
}

/// What is the same for all stores.
struct Server<'a> {
    config: &'a Config,
    ports: Ports,
    store: StoreIdentity,
    metrics: Arc<Metrics>,
    traces: Traces,
    audit: Option<Arc<Audit>>,
}

impl Server<'_> {
    /// Serves, drains, and waits for `cleanup`.
    async fn serve<S: Store>(
        self,
        locks: &Arc<Locks<S>>,
        store_up: watch::Receiver<bool>,
        shutdown: impl Future<Output = ()> + Send + 'static,
        cleanup: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let Self { config, ports: Ports { api: listeners, admin, faults }, store, metrics, traces, audit } = self;
        let Listeners { sockets, tls, access, .. } = listeners;
        let with_admin = config.admin_service == AdminPlace::Everywhere;
        let build = Build::with(&config.store);
        let (services, is_up) = (api::service_names(with_admin), *store_up.borrow());
        let (health, health_service) = Health::new(services, store.clone(), metrics.clone(), is_up).await;
        let calls = CallsLayer::new(metrics.calls.clone());
        let issuer_keys = IssuerKeys::start(access.clone(), metrics.access.clone()).await;
        let guard = |access| Guard::new(access, metrics.access.clone(), metrics.quotas.clone(), audit.clone());
        let guard = access.clone().map(|access| Arc::new(guard(access)));
        let measured = (locks.clone(), guard.clone());
        let refresh = move || {
            measured.0.measure();
            measured.1.iter().for_each(|guard| guard.measure());
        };
        let pages = Pages::new(build, metrics.clone(), refresh, health.subscribe());
        let ordered = (!faults.is_empty()).then(|| Arc::new(Faults::default()));
        let api = Api::new(locks, store, config.drain_timeout, &metrics.calls, &traces);
        let api = api.with_faults(ordered.clone()).guarded(guard).audited(audit.clone());
        let grpc = api::admin_routes(&api)?;
        let refusals = Arc::new(Refusals::new(metrics.connections.clone()));
        let outer = ServiceBuilder::new()
            // What is no call is not counted as one, so that no web page raises the alert of failed calls.
            .layer(ContentTypeLayer(refusals.clone()))
            .layer(calls)
            .layer(TracesLayer::new(traces.clone()))
            .layer(BrokenOffLayer)
            .layer(UnreadableLayer);
        let hosts = Hosts::of(&config.admin_listen, &admin);
        let callers = Callers { tls: tls.clone().filter(|_| config.admin_tls), access: access.clone() };
        let mut admin = Admin::new(admin, pages.router(outer.service(grpc), hosts), callers, refusals.clone());
        let services = api::services(&api, health_service, with_admin)?;
        let service = outer.layer(DeadlineLayer).layer(RequestTimeLayer::new(refusals.clone())).service(services);
        let calls = OpenCalls::new(config, metrics.connections.open_calls.clone(), refusals.clone());
        let orders = ordered.clone().map_or_else(Router::new, |ordered| faults::router(ordered, locks.clone()));
        let mut faults = Admin::new(faults, orders, Callers::default(), refusals.clone());
        let http2 = Http2::new(calls, refusals.clone(), access.clone(), ordered);
        let gate = Gate {
            tls: tls.clone(),
            admission: Arc::new(Admission::new(
                config.connections_max,
                config.connections_per_peer,
                metrics.connections.clone(),
            )),
            backlogs: Backlogs::new(),
            refusals,
            metrics: metrics.connections.clone(),
        };
        let connections = connections(sockets, gate);
        let serve = |closing: drain::Closing| http2.serve(service, connections, closing);
        let served = async {
            drain::serve_until_drained(serve, locks, &health, config.drain_timeout, shutdown).await;
            cleanup.await;
        };
        tokio::select! {
            () = served => {}
            never = follow_files(tls.as_deref(), &metrics.connections) => match never {},
            never = follow_access(access, &metrics.access, audit.as_deref()) => match never {},
            never = audit::follow(audit.as_deref()) => match never {},
            never = issuer_keys.follow() => match never {},
            never = health.follow_store(store_up.clone()) => match never {},
            never = doubt_observed(locks, store_up) => match never {},
            never = admin.run() => match never {},
            never = faults.run() => match never {},
        }
        traces.flush().await;
        admin.close().await;
        audit::finish(audit).await;
        Ok(())
    }
}

/// Tells observers when the store is lost or back.
async fn doubt_observed<S: Store>(locks: &Locks<S>, mut store_up: watch::Receiver<bool>) -> Infallible {
    loop {
        if store_up.changed().await.is_err() {
            return pending().await;
        }
        locks.doubt_observed();
    }
}

/// Follows the files of TLS, if it is on.
async fn follow_files(tls: Option<&Tls>, metrics: &ConnectionMetrics) -> Infallible {
    match tls {
        Some(tls) => tls.follow_files(metrics).await,
        None => pending().await,
    }
}

/// Follows the access file, if there is one.
async fn follow_access(access: Option<Arc<Access>>, metrics: &AccessMetrics, audit: Option<&Audit>) -> Infallible {
    match access {
        Some(access) => access::follow(access, metrics, audit).await,
        None => pending().await,
    }
}

/// A store in this process is always available.
fn always_up() -> watch::Receiver<bool> {
    watch::Sender::new(true).subscribe()
}
