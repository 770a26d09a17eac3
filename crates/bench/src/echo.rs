//! The transport baseline: a server of the same API that only sends answers of the same size. Its calls cost what gRPC
//! itself costs.

use super::caller::wire;
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
use std::{
    pin::Pin,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};
use tokio::net::TcpListener;
use tokio_stream::{Stream, StreamExt};
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Server, server::TcpIncoming},
};

/// Calls with at least this wait never return: the cost of a waiting call in tonic itself.
const HELD_OPEN: Duration = Duration::from_secs(600);

type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[derive(Debug, Default)]
struct Echo {
    /// Waiting calls.
    open: AtomicU32,
}

/// `echo`: serves on a free port, which it logs like the server, until it is killed.
pub(crate) async fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("{}", serde_json::json!({ "message": "listening", "addr": listener.local_addr()?.to_string() }));
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Ok(Server::builder().add_service(LockServiceServer::new(Echo::default())).serve_with_incoming(incoming).await?)
}

fn acquired(request: AcquireRequest) -> AcquireResponse {
    let lease = Lease {
        lock_name: request.lock_name,
        lease_id: "5f7f1d52-6d0b-4f6e-9b0a-0f3f1d1c7a10".to_owned(),
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

fn released() -> ReleaseResponse {
    ReleaseResponse { end: LeaseEnd::Released.into(), successor_token: 0 }
}

fn answer(request: SessionRequest) -> Option<SessionResponse> {
    let message = match request.message? {
        session_request::Message::Acquire(acquire) => {
            session_response::Message::Acquire(acquired(acquire.request.unwrap_or_default()))
        }
        session_request::Message::Release(_) => session_response::Message::Release(released()),
        _ => return None,
    };
    Some(SessionResponse { operation: request.operation, message: Some(message) })
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
        Ok(Response::new(acquired(request)))
    }

    async fn release(&self, _: Request<ReleaseRequest>) -> Result<Response<ReleaseResponse>, Status> {
        Ok(Response::new(released()))
    }

    type SessionStream = Messages<SessionResponse>;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let answers = request.into_inner().filter_map(|request| request.map(answer).transpose());
        Ok(Response::new(Box::pin(answers)))
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

fn not_here() -> Status {
    Status::unimplemented("the echo server implements only what the benchmark uses")
}
