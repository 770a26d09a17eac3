//! A server on a free port, clients, and the words that the tests are written in.
#![allow(dead_code)] // not every test crate uses all of it

use fencepost::config::Config;
use fencepost_proto::v1::{
    self, acquire_response::Outcome, admin_service_client::AdminServiceClient, lock_service_client::LockServiceClient,
};
use std::{future::Future, net::SocketAddr, time::Duration};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt;
use uuid::Uuid;

/// No condition takes this long on a machine that is only busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Awaits a condition, not for ever.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("the condition came in time")
}

/// Asks until the answer is yes.
pub(crate) async fn until<F: Future<Output = bool>>(mut ask: impl FnMut() -> F) {
    within(async {
        while !ask().await {
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

    /// TTLs may be short, so that expiry can be awaited.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::load(Vec::new(), |_| None, |_| Ok(())).unwrap();
        config.limits.ttl_min = Duration::from_millis(50);
        change(&mut config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (shutdown, asked) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let shutdown = async {
                if asked.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            fencepost::server::serve(config, vec![listener], shutdown).await.unwrap();
        });
        Self { addr, shutdown: Some(shutdown), task }
    }

    /// Asks it to go away, as SIGTERM does.
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

/// A channel on which no stream has room for more than a byte that the client has not read.
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

/// A try with a request id of its own.
pub(crate) fn wish(name: &str, ttl: Duration) -> v1::AcquireRequest {
    v1::AcquireRequest {
        lock_name: name.into(),
        holder: "test".into(),
        ttl: span(ttl),
        request_id: Uuid::new_v4().to_string(),
        attempt: 1,
        ..v1::AcquireRequest::default()
    }
}

/// The same, waiting.
pub(crate) fn waiting_wish(name: &str, ttl: Duration, wait: Duration) -> v1::AcquireRequest {
    v1::AcquireRequest { wait_timeout: span(wait), ..wish(name, ttl) }
}

/// What the tests do most.
#[allow(async_fn_in_trait)]
pub(crate) trait Lock {
    async fn ask(&mut self, wish: v1::AcquireRequest) -> v1::AcquireResponse;
    async fn take(&mut self, wish: v1::AcquireRequest) -> v1::Lease;
    async fn give_back(&mut self, lease: &v1::Lease) -> v1::LeaseEnd;
    async fn look(&mut self, name: &str) -> v1::LockInfo;
    async fn holder(&mut self, name: &str) -> Option<v1::LockHolder>;
}

impl Lock for LockServiceClient<Channel> {
    async fn ask(&mut self, wish: v1::AcquireRequest) -> v1::AcquireResponse {
        within(self.acquire(wish)).await.unwrap().into_inner()
    }

    async fn take(&mut self, wish: v1::AcquireRequest) -> v1::Lease {
        let response = self.ask(wish).await;
        assert_eq!(response.outcome(), Outcome::Acquired, "{response:?}");
        response.lease.unwrap()
    }

    async fn give_back(&mut self, lease: &v1::Lease) -> v1::LeaseEnd {
        let request = v1::ReleaseRequest { lock_name: lease.lock_name.clone(), lease_id: lease.lease_id.clone() };
        within(self.release(request)).await.unwrap().into_inner().end()
    }

    async fn look(&mut self, name: &str) -> v1::LockInfo {
        let request = v1::GetRequest { lock_name: name.into() };
        within(self.get(request)).await.unwrap().into_inner().lock.unwrap()
    }

    async fn holder(&mut self, name: &str) -> Option<v1::LockHolder> {
        only(self.look(name).await.holders)
    }
}

/// The one holder of an exclusive lock, if it is held.
pub(crate) fn only(mut holders: Vec<v1::LockHolder>) -> Option<v1::LockHolder> {
    assert!(holders.len() <= 1, "{holders:?}");
    holders.pop()
}

/// Checks an error's code and reason.
pub(crate) fn assert_refused<T: std::fmt::Debug>(result: Result<T, Status>, code: Code, reason: &str) -> Status {
    let status = result.expect_err("it is refused");
    assert_eq!(status.code(), code, "{status:?}");
    assert_eq!(status.get_details_error_info().map(|info| info.reason), Some(reason.into()), "{status:?}");
    status
}

/// Checks that exactly this field was refused.
pub(crate) fn assert_bad_field<T: std::fmt::Debug>(result: Result<T, Status>, field: &str) {
    let status = assert_refused(result, Code::InvalidArgument, "INVALID_FIELD");
    let fields: Vec<_> =
        status.get_details_bad_request().unwrap().field_violations.into_iter().map(|it| it.field).collect();
    assert_eq!(fields, [field], "{}", status.message());
}
