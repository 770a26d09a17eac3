//! The calls of a fake server.

use super::clients::Messages;
use super::lock::Caller;
use super::shared::Shared;
use crate::v1;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};
use v1::check_token_response::Status as TokenStatus;
use v1::keep_alive_request::Message as KeepAliveRequest;
use v1::keep_alive_response::Message as KeepAlive;
use v1::lock_service_server::{LockService, LockServiceServer};
use v1::session_request::Message as SessionRequest;
use v1::session_response::Message as Session;

/// Serves until `stopped`, whose error is that the server was dropped.
pub(super) async fn serve(shared: Arc<Shared>, incoming: TcpIncoming, stopped: oneshot::Receiver<()>) {
    let service = LockServiceServer::new(Service { shared: shared.clone() });
    tokio::select! {
        served = Server::builder().add_service(service).serve_with_incoming(incoming) => {
            if let Err(error) = served {
                tracing::error!(%error, "the fake server failed");
            }
        }
        () = shared.tick() => {}
        _dropped = stopped => {}
    }
}

struct Service {
    shared: Arc<Shared>,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Service {
    /// The messages, none of them during a pause.
    fn answers<T: Send + 'static>(&self, messages: Messages<T>) -> Answers<T> {
        let shared = self.shared.clone();
        Box::pin(UnboundedReceiverStream::new(messages).then(move |message| {
            let shared = shared.clone();
            async move {
                shared.running().await;
                message
            }
        }))
    }

    /// Opens a stream, and reads it in the background until it ends.
    async fn open<S>(&self, mut requests: S) -> Answers<v1::SessionResponse>
    where
        S: Stream<Item = Result<v1::SessionRequest, Status>> + Send + Unpin + 'static,
    {
        let (stream, messages) = self.shared.serve(|state, _| state.clients.open_stream()).await;
        let shared = self.shared.clone();
        tokio::spawn(async move {
            while let Some(Ok(request)) = requests.next().await {
                let received = shared.serve(|state, now| {
                    // What a client sent before it left is not done after a pause.
                    let open = state.clients.is_open(stream);
                    if open {
                        state.received(stream, request, now);
                    }
                    open
                });
                if !received.await {
                    break;
                }
            }
            shared.change(|state, now| {
                state.clients.close_stream(stream);
                state.locks.leave_stream(stream, now);
            });
        });
        self.answers(messages)
    }
}

/// A unary acquire whose caller may leave before the answer.
struct Call {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.shared.change(|state, now| {
            state.clients.close_call(self.id);
            state.locks.leave(now, |caller| caller == Caller::Call(self.id));
        });
    }
}

#[tonic::async_trait]
impl LockService for Service {
    async fn acquire(&self, request: Request<v1::AcquireRequest>) -> Result<Response<v1::AcquireResponse>, Status> {
        let asked = self.shared.serve(|state, now| {
            let (id, answer) = state.clients.open_call();
            state.locks.acquire(request.into_inner(), Caller::Call(id), now, &mut state.clients);
            (Call { shared: self.shared.clone(), id }, answer)
        });
        let (call, answer) = asked.await;
        let answer = answer.await.map_err(|_| Status::unavailable("the fake server has ended"))?;
        self.shared.running().await;
        drop(call);
        Ok(Response::new(answer?))
    }

    async fn release(&self, request: Request<v1::ReleaseRequest>) -> Result<Response<v1::ReleaseResponse>, Status> {
        let request = request.into_inner();
        let released = self.shared.serve(|state, now| {
            let answer = state.locks.release(&request, &mut state.clients);
            let answer = state.clients.reply(answer);
            state.locks.serve(&request.lock_name, now, &mut state.clients);
            answer
        });
        released.await.map(Response::new)
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Result<Response<v1::RenewResponse>, Status> {
        let renewed = self.shared.serve(|state, now| {
            let answer = state.renew(request.get_ref(), now);
            state.clients.reply(answer)
        });
        renewed.await.map(Response::new)
    }

    type SessionStream = Answers<v1::SessionResponse>;

    async fn session(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        Ok(Response::new(self.open(request.into_inner()).await))
    }

    type KeepAliveStream = Answers<v1::KeepAliveResponse>;

    /// The part of a session that keeps leases alive.
    async fn keep_alive(
        &self,
        request: Request<Streaming<v1::KeepAliveRequest>>,
    ) -> Result<Response<Self::KeepAliveStream>, Status> {
        let asked = |message| match message {
            KeepAliveRequest::Attach(attach) => SessionRequest::Attach(attach),
            KeepAliveRequest::Detach(detach) => SessionRequest::Detach(detach),
            KeepAliveRequest::Answer(answer) => SessionRequest::Answer(answer),
        };
        let requests = request.into_inner().map(move |request| {
            request.map(|request| v1::SessionRequest { operation: 0, message: request.message.map(asked) })
        });
        let told = |message| match message {
            Session::Beat(beat) => Some(KeepAlive::Beat(beat)),
            Session::Attached(attached) => Some(KeepAlive::Attached(attached)),
            Session::Renewed(renewed) => Some(KeepAlive::Renewed(renewed)),
            Session::Lost(lost) => Some(KeepAlive::Lost(lost)),
            Session::Detached(detached) => Some(KeepAlive::Detached(detached)),
            _ => None,
        };
        let told = move |answer: v1::SessionResponse| v1::KeepAliveResponse { message: answer.message.and_then(told) };
        let answers = self.open(requests).await.map(move |answer| answer.map(told));
        Ok(Response::new(Box::pin(answers)))
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> Result<Response<v1::GetResponse>, Status> {
        let name = request.into_inner().lock_name;
        let lock = self.shared.serve(|state, now| state.locks.lock(&name).info(&name, now)).await;
        Ok(Response::new(v1::GetResponse { lock: Some(lock) }))
    }

    /// One page, whatever its size.
    async fn list(&self, request: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        let prefix = request.into_inner().prefix;
        let listed = self.shared.serve(|state, now| {
            let locks = state.locks.by_name.iter().filter(|(name, _)| name.starts_with(&prefix));
            let wanted = locks.filter(|(_, lock)| lock.current.is_some() || !lock.queue.is_empty());
            wanted.map(|(name, lock)| lock.info(name, now)).collect()
        });
        Ok(Response::new(v1::ListResponse { locks: listed.await, next_page_token: String::new() }))
    }

    type WatchStream = Answers<v1::WatchResponse>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let events = self.shared.serve(|state, _| state.clients.watch(request.into_inner().prefix)).await;
        Ok(Response::new(self.answers(events)))
    }

    async fn check_token(
        &self,
        request: Request<v1::CheckTokenRequest>,
    ) -> Result<Response<v1::CheckTokenResponse>, Status> {
        let v1::CheckTokenRequest { lock_name, fencing_token: token } = request.into_inner();
        let checked = self.shared.serve(|state, _| {
            let lock = state.locks.lock(&lock_name);
            let status = match lock.newest {
                newest if token == 0 || token > newest => TokenStatus::Unknown,
                newest if token < newest => TokenStatus::Stale,
                _ if lock.current.is_some() => TokenStatus::Current,
                _ => TokenStatus::Ended,
            };
            v1::CheckTokenResponse { status: status.into(), newest_token: lock.newest }
        });
        Ok(Response::new(checked.await))
    }
}
