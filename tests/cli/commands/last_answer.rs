//! A server that answers once and then no more: the command says what it answered.

use crate::support::{Process, fencepost};
use fencepost_client::raw::v1::{self, lock_service_server as server};
use hyper::server::conn::http2;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use std::{
    collections::HashMap,
    future::pending,
    sync::atomic::{AtomicBool, Ordering},
};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt as _};
use v1::session_response::Message;

const TOLD: &str = "(no answer in time; the last answer was UNAVAILABLE (STORE_UNAVAILABLE): Redis is away)";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_answered_before_it_fell_silent_is_told() {
    let mut commands = Vec::new();
    for words in [&["ls"][..], &["get", "a"], &["acquire", "a"]] {
        let address = Once::start().await;
        let said = match words {
            ["acquire", ..] => format!("outcome unknown: {address} did not answer {TOLD}, so the call may or may not"),
            _ => format!("no answer from {address} {TOLD}: try again"),
        };
        commands.push((Process::start(&mut fencepost(&[words, &["--server", &address]].concat())), said));
    }
    for (command, said) in commands {
        tokio::task::spawn_blocking(move || command.ended()).await.unwrap().expect(69).says(&said);
    }
}

/// Answers one request: its store is away.
#[derive(Debug, Default)]
struct Once {
    has_answered: AtomicBool,
}

impl Once {
    /// Returns its address.
    async fn start() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let service = TowerToHyperService::new(server::LockServiceServer::new(Self::default()));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Without tonic's server, which answers a call at its deadline: at times before the client gives up.
                let builder = http2::Builder::new(TokioExecutor::new());
                tokio::spawn(builder.serve_connection(TokioIo::new(stream), service.clone()));
            }
        });
        address
    }

    async fn answer<T>(&self) -> Result<Response<T>, Status> {
        if self.has_answered.swap(true, Ordering::Relaxed) {
            return pending().await;
        }
        Err(away())
    }
}

fn away() -> Status {
    let details = ErrorDetails::with_error_info("STORE_UNAVAILABLE", "fencepost", HashMap::new());
    Status::with_error_details(tonic::Code::Unavailable, "Redis is away", details)
}

/// An error of an operation has the fields of a status.
fn refused(operation: u64) -> v1::SessionResponse {
    let error: v1::OperationError = prost::Message::decode(away().details()).unwrap();
    v1::SessionResponse { operation, message: Some(Message::Error(error)) }
}

#[tonic::async_trait]
impl server::LockService for Once {
    type SessionStream = ReceiverStream<Result<v1::SessionResponse, Status>>;
    type KeepAliveStream = ReceiverStream<Result<v1::KeepAliveResponse, Status>>;
    type WatchStream = ReceiverStream<Result<v1::WatchResponse, Status>>;
    type ObserveStream = ReceiverStream<Result<v1::ObserveResponse, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (answers, stream) = mpsc::channel(1);
        let mut requests = request.into_inner();
        let mut has_answered = self.has_answered.swap(true, Ordering::Relaxed);
        tokio::spawn(async move {
            while let Ok(Some(request)) = requests.message().await {
                if !has_answered && matches!(request.message, Some(v1::session_request::Message::Acquire(_))) {
                    has_answered = answers.send(Ok(refused(request.operation))).await.is_ok();
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn get(&self, _: Request<v1::GetRequest>) -> Result<Response<v1::GetResponse>, Status> {
        self.answer().await
    }

    async fn list(&self, _: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        self.answer().await
    }

    async fn acquire(&self, _: Request<v1::AcquireRequest>) -> Result<Response<v1::AcquireResponse>, Status> {
        pending().await
    }

    async fn release(&self, _: Request<v1::ReleaseRequest>) -> Result<Response<v1::ReleaseResponse>, Status> {
        pending().await
    }

    async fn convert(&self, _: Request<v1::ConvertRequest>) -> Result<Response<v1::ConvertResponse>, Status> {
        pending().await
    }

    async fn describe(&self, _: Request<v1::DescribeRequest>) -> Result<Response<v1::DescribeResponse>, Status> {
        pending().await
    }

    async fn list_waiters(
        &self,
        _: Request<v1::ListWaitersRequest>,
    ) -> Result<Response<v1::ListWaitersResponse>, Status> {
        pending().await
    }

    async fn observe(&self, _: Request<v1::ObserveRequest>) -> Result<Response<Self::ObserveStream>, Status> {
        pending().await
    }

    async fn renew(&self, _: Request<v1::RenewRequest>) -> Result<Response<v1::RenewResponse>, Status> {
        pending().await
    }

    async fn keep_alive(
        &self,
        _: Request<Streaming<v1::KeepAliveRequest>>,
    ) -> Result<Response<Self::KeepAliveStream>, Status> {
        pending().await
    }

    async fn watch(&self, _: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        pending().await
    }

    async fn check_token(&self, _: Request<v1::CheckTokenRequest>) -> Result<Response<v1::CheckTokenResponse>, Status> {
        pending().await
    }
}
