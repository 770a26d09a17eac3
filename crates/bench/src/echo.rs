//! The transport baseline: a server of the same API that only sends answers of the same size. Its calls cost what gRPC
//! itself costs. With a Redis it forwards acquires and releases to the classic lock there: the least that a server in
//! front of Redis does.

use super::{
    baselines::{ClassicLock, TTL},
    caller::{Failure, wire},
};
use deadpool_redis::redis::{Client, aio::MultiplexedConnection};
use fencepost_proto::v1::{
    AcquireRequest, AcquireResponse, CheckTokenRequest, CheckTokenResponse, ConvertRequest, ConvertResponse,
    DescribeRequest, DescribeResponse, GetRequest, GetResponse, KeepAliveRequest, KeepAliveResponse, Lease, LeaseEnd,
    ListRequest, ListResponse, ListWaitersRequest, ListWaitersResponse, LockInfo, ObserveRequest, ObserveResponse,
    ReleaseRequest, ReleaseResponse, RenewRequest, RenewResponse, SessionRequest, SessionResponse, WatchRequest,
    WatchResponse,
    acquire_response::Outcome,
    lock_service_server::{LockService, LockServiceServer},
    session_request, session_response,
};
use futures_util::{Stream, StreamExt};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::net::TcpListener;
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Server, server::TcpIncoming},
};

/// Calls with at least this wait never return: the cost of a waiting call in tonic itself.
const HELD_OPEN: Duration = Duration::from_secs(600);
/// Operations of a stream that are forwarded at a time: no benchmark has more clients on one.
const FORWARDED_MAX: usize = 10_000;
/// The lease id of each answer that no Redis stands behind.
const LEASE_ID: &str = "5f7f1d52-6d0b-4f6e-9b0a-0f3f1d1c7a10";

type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[derive(Clone, Default)]
struct Echo {
    /// Waiting calls.
    open: Arc<AtomicU32>,
    /// Where it forwards to.
    redis: Option<(MultiplexedConnection, ClassicLock)>,
}

/// `echo`: serves on a free port, which it logs like the server, until it is killed.
pub(crate) async fn serve(redis: Option<String>) -> anyhow::Result<()> {
    let redis = match redis {
        Some(url) => Some((Client::open(url)?.get_multiplexed_async_connection().await?, ClassicLock::new())),
        None => None,
    };
    let echo = Echo { redis, ..Echo::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("{}", serde_json::json!({ "message": "listening", "addr": listener.local_addr()?.to_string() }));
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Ok(Server::builder().add_service(LockServiceServer::new(echo)).serve_with_incoming(incoming).await?)
}

fn acquired(request: AcquireRequest, lease_id: String) -> AcquireResponse {
    let lease = Lease {
        lock_name: request.lock_name,
        lease_id,
        grant_id: "9c0f2a4e-1b7d-4c58-8a43-6e5d2b9f7c31".to_owned(),
        fencing_token: 1_763_000_000_000_000,
        ttl: request.ttl,
        mode: 0,
        slot: 0,
    };
    AcquireResponse {
        outcome: Outcome::Acquired.into(),
        lease: Some(lease),
        held_for: Some(wire(Duration::from_micros(1))),
        previous_end: LeaseEnd::Released.into(),
        ..Default::default()
    }
}

impl Echo {
    async fn acquired(&self, request: AcquireRequest) -> Result<AcquireResponse, Status> {
        let lease_id = match self.redis.clone() {
            Some((mut redis, classic)) => classic.take(&mut redis, &request.lock_name, TTL).await?,
            None => Some(LEASE_ID.to_owned()),
        };
        Ok(acquired(request, lease_id.ok_or_else(|| Status::aborted("the lock is held"))?))
    }

    async fn released(
        &self,
        ReleaseRequest { lock_name, lease_id }: ReleaseRequest,
    ) -> Result<ReleaseResponse, Status> {
        if let Some((mut redis, classic)) = self.redis.clone() {
            classic.release(&mut redis, &lock_name, &lease_id).await?;
        }
        Ok(ReleaseResponse { end: LeaseEnd::Released.into(), successor_token: 0 })
    }

    async fn answer(&self, request: SessionRequest) -> Result<SessionResponse, Status> {
        let message = match request.message {
            Some(session_request::Message::Acquire(acquire)) => {
                session_response::Message::Acquire(self.acquired(acquire.request.unwrap_or_default()).await?)
            }
            Some(session_request::Message::Release(release)) => {
                session_response::Message::Release(self.released(release).await?)
            }
            _ => return Err(not_here()),
        };
        Ok(SessionResponse { operation: request.operation, message: Some(message) })
    }
}

#[tonic::async_trait]
impl LockService for Echo {
    async fn acquire(&self, request: Request<AcquireRequest>) -> Result<Response<AcquireResponse>, Status> {
        let request = request.into_inner();
        let wait = request.wait_timeout.and_then(|wait| Duration::try_from(wait).ok()).unwrap_or_default();
        if wait >= HELD_OPEN {
            self.open.fetch_add(1, Relaxed);
            std::future::pending::<()>().await;
        }
        Ok(Response::new(self.acquired(request).await?))
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<ReleaseResponse>, Status> {
        Ok(Response::new(self.released(request.into_inner()).await?))
    }

    type SessionStream = Messages<SessionResponse>;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let echo = self.clone();
        let answers = request.into_inner().map(move |request| {
            let echo = echo.clone();
            async move { echo.answer(request?).await }
        });
        // Nothing waits, and so nothing overtakes, without a Redis.
        Ok(Response::new(match self.redis {
            Some(_) => Box::pin(answers.buffer_unordered(FORWARDED_MAX)),
            None => Box::pin(answers.then(|answer| answer)),
        }))
    }

    /// Reports the waiting calls as waiters.
    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let waiters = self.open.load(Relaxed);
        let lock = LockInfo { lock_name: request.into_inner().lock_name, waiters, ..Default::default() };
        Ok(Response::new(GetResponse { lock: Some(lock) }))
    }

    async fn renew(&self, _: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        Err(not_here())
    }

    async fn convert(&self, _: Request<ConvertRequest>) -> Result<Response<ConvertResponse>, Status> {
        Err(not_here())
    }

    async fn describe(&self, _: Request<DescribeRequest>) -> Result<Response<DescribeResponse>, Status> {
        Err(not_here())
    }

    type ObserveStream = Messages<ObserveResponse>;

    async fn observe(&self, _: Request<ObserveRequest>) -> Result<Response<Self::ObserveStream>, Status> {
        Err(not_here())
    }

    async fn list_waiters(&self, _: Request<ListWaitersRequest>) -> Result<Response<ListWaitersResponse>, Status> {
        Err(not_here())
    }

    type KeepAliveStream = Messages<KeepAliveResponse>;

    async fn keep_alive(
        &self,
        _: Request<Streaming<KeepAliveRequest>>,
    ) -> Result<Response<Self::KeepAliveStream>, Status> {
        Err(not_here())
    }

    async fn list(&self, _: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        Err(not_here())
    }

    type WatchStream = Messages<WatchResponse>;

    async fn watch(&self, _: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(not_here())
    }

    async fn check_token(&self, _: Request<CheckTokenRequest>) -> Result<Response<CheckTokenResponse>, Status> {
        Err(not_here())
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        Self::unavailable(failure.0)
    }
}

fn not_here() -> Status {
    Status::unimplemented("the echo server implements only what the benchmark uses")
}
