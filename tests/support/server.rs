//! A server in the process of the test, clients, and helpers for calls and checks.
#![allow(dead_code, reason = "no test uses all of it")]

use fencepost::testing::{
    config::{AdminPlace, Config, Environment},
    server::Ports,
};
use fencepost_proto::v1::{
    self, acquire_response::Outcome, admin_service_client::AdminServiceClient, lock_service_client::LockServiceClient,
};
use std::{future::Future, net::SocketAddr, time::Duration};
use tokio::{sync::oneshot, task::JoinHandle};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_types::StatusExt;
use uuid::Uuid;

/// The longest wait for a condition, for a very busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Awaits a future for at most [`PATIENCE`].
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("the future resolves in time")
}

/// Waits until the health service reports whether the server is serving.
pub(crate) async fn serving(server: &Server, expected: bool) {
    let health = HealthClient::new(server.channel());
    until(|| {
        let mut health = health.clone();
        async move {
            let status =
                health.check(HealthCheckRequest { service: String::new() }).await.unwrap().into_inner().status();
            (status == ServingStatus::Serving) == expected
        }
    })
    .await;
}

/// Polls a condition until it is true.
pub(crate) async fn until<F: Future<Output = bool>>(mut condition: impl FnMut() -> F) {
    within(async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A server in this process.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    shutdown: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// A server on a free port that allows short TTLs, with a changed configuration.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::load(Vec::new(), &Environment::new(), |_| Ok(())).unwrap();
        config.limits.ttl_min = Duration::from_millis(50);
        config.admin_service = AdminPlace::Everywhere;
        change(&mut config);
        config.listen = "127.0.0.1:0".parse().unwrap();
        let listeners = fencepost::testing::server::bind(&config).await.unwrap();
        let addr = listeners.addresses().unwrap()[0].parse().unwrap();
        let (shutdown, requested) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let shutdown = async {
                if requested.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let ports = Ports { api: listeners, admin: Vec::new(), faults: Vec::new() };
            fencepost::testing::server::serve(config, ports, shutdown).await.unwrap();
        });
        Self { addr, shutdown: Some(shutdown), task }
    }

    /// Drains the server, as SIGTERM does.
    pub(crate) fn shut_down(&mut self) {
        self.shutdown.take().unwrap().send(()).unwrap();
    }

    pub(crate) fn channel(&self) -> Channel {
        channel(self.addr)
    }

    pub(crate) fn client(&self) -> LockServiceClient<Channel> {
        LockServiceClient::new(self.channel())
    }

    pub(crate) fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn channel(addr: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{addr}")).unwrap().tcp_nodelay(true).connect_lazy()
}

/// A channel with a flow-control window of one byte for each stream.
pub(crate) fn narrow_channel(addr: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{addr}")).unwrap();
    endpoint.tcp_nodelay(true).initial_stream_window_size(1).connect_lazy()
}

pub(crate) fn span(span: Duration) -> Option<prost_types::Duration> {
    Some(span.try_into().unwrap())
}

pub(crate) fn read(span: Option<prost_types::Duration>) -> Duration {
    span.unwrap().try_into().unwrap()
}

/// A request that does not wait, with a new request id.
pub(crate) fn acquire_request(name: &str, ttl: Duration) -> v1::AcquireRequest {
    v1::AcquireRequest {
        lock_name: name.into(),
        holder: "test".into(),
        ttl: span(ttl),
        request_id: Uuid::new_v4().to_string(),
        attempt: 1,
        ..v1::AcquireRequest::default()
    }
}

/// A request that waits, with a new request id.
pub(crate) fn waiting_request(name: &str, ttl: Duration, wait: Duration) -> v1::AcquireRequest {
    v1::AcquireRequest { wait_timeout: span(wait), ..acquire_request(name, ttl) }
}

/// The calls that tests use most, with a bound on their time.
#[allow(async_fn_in_trait)]
pub(crate) trait Lock {
    /// Acquires.
    async fn acquire_response(&mut self, request: v1::AcquireRequest) -> v1::AcquireResponse;
    /// Acquires, and expects a grant.
    async fn acquire_lease(&mut self, request: v1::AcquireRequest) -> v1::Lease;
    /// Releases.
    async fn release_lease(&mut self, lease: &v1::Lease) -> v1::LeaseEnd;
    /// Gets the lock.
    async fn lock_info(&mut self, name: &str) -> v1::LockInfo;
    /// Gets the holder of the lock.
    async fn holder(&mut self, name: &str) -> Option<v1::LockHolder>;
}

impl Lock for LockServiceClient<Channel> {
    async fn acquire_response(&mut self, request: v1::AcquireRequest) -> v1::AcquireResponse {
        within(self.acquire(request)).await.unwrap().into_inner()
    }

    async fn acquire_lease(&mut self, mut request: v1::AcquireRequest) -> v1::Lease {
        let ask = async {
            loop {
                match self.acquire(request.clone()).await {
                    // The lock's leader changes, say. As a client does, it asks again.
                    Err(status) if status.code() == Code::Unavailable => request.attempt += 1,
                    answer => break answer.unwrap().into_inner(),
                }
            }
        };
        let response = within(ask).await;
        assert_eq!(response.outcome(), Outcome::Acquired, "{response:?}");
        response.lease.unwrap()
    }

    async fn release_lease(&mut self, lease: &v1::Lease) -> v1::LeaseEnd {
        let request = v1::ReleaseRequest { lock_name: lease.lock_name.clone(), lease_id: lease.lease_id.clone() };
        let ask = async {
            loop {
                match self.release(request.clone()).await {
                    // The lock's leader changes, say. A release is idempotent, so it is repeated, as by clients.
                    Err(status) if status.code() == Code::Unavailable => {}
                    answer => break answer.unwrap().into_inner().end(),
                }
            }
        };
        within(ask).await
    }

    async fn lock_info(&mut self, name: &str) -> v1::LockInfo {
        let ask = async {
            loop {
                match self.get(v1::GetRequest { lock_name: name.into() }).await {
                    // A Redis on a busy machine did not answer in time, or the lock's leader changes. A Get changes
                    // nothing, so it is repeated.
                    Err(status) if status.code() == Code::Unavailable => {}
                    answer => break answer.unwrap().into_inner().lock.unwrap(),
                }
            }
        };
        within(ask).await
    }

    async fn holder(&mut self, name: &str) -> Option<v1::LockHolder> {
        only(self.lock_info(name).await.holders)
    }
}

/// The holder of an exclusive lock, if it is held.
pub(crate) fn only(mut holders: Vec<v1::LockHolder>) -> Option<v1::LockHolder> {
    assert!(holders.len() <= 1, "{holders:?}");
    holders.pop()
}

/// Checks an error's code and reason.
pub(crate) fn assert_refused<T: std::fmt::Debug>(result: Result<T, Status>, code: Code, reason: &str) -> Status {
    let status = result.expect_err("the call is refused");
    assert_eq!(status.code(), code, "{status:?}");
    assert_eq!(status.get_details_error_info().map(|info| info.reason), Some(reason.into()), "{status:?}");
    status
}

/// Checks that the call was refused because of this field only.
pub(crate) fn assert_bad_field<T: std::fmt::Debug>(result: Result<T, Status>, field: &str) {
    let status = assert_refused(result, Code::InvalidArgument, "INVALID_FIELD");
    let fields: Vec<_> =
        status.get_details_bad_request().unwrap().field_violations.into_iter().map(|it| it.field).collect();
    assert_eq!(fields, [field], "{}", status.message());
}
