//! HTTP/2 on open connections: what one may ask for. Each connection has a task of its own.

use super::{
    accept::Connection,
    backlog::TakenBody,
    layers::{OpenCalls, STREAMS_MAX, Unread},
    refusals::Refusals,
    turns::Turns,
};
use crate::{
    access::{self, Access},
    api::{Faults, peer::Origin},
    telemetry::metrics::Bound,
};
use h2::Reason;
use hyper::{Request, Response, body::Incoming, server::conn::http2::Builder, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use std::{
    cell::RefCell,
    convert::Infallible,
    error::Error,
    future::{Future, pending},
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tower::Service;

/// How often an idle connection is pinged, and how long the answer may take. The server notices a vanished client
/// within their sum. The leases of the client are not affected.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that a client may send ahead on one stream, and on all streams of a connection, before the server has read
/// them. h2 closes the whole connection (ENHANCE_YOUR_CALM) once small DATA frames that it buffers have an overhead of
/// half the connection's window, where a frame of n bytes counts 256 - n. grpc-go sends a frame for each message, such
/// as 60 bytes for a release. So flow control has to stop such a client first: nine full windows of unread releases
/// stay below the limit.
const STREAM_WINDOW: u32 = 256 * 1_024;
const CONNECTION_WINDOW: u32 = 64 * STREAM_WINDOW;
/// The longest headers of a call, in bytes as HTTP/2 counts them: name, value and 32 for each header. gRPC libraries
/// send at most 8 KiB unless they are told otherwise. Beyond it, h2 answers the call with HTTP status 431.
const HEADER_LIST_MAX: u32 = 16 * 1_024;
/// The most streams that a client may cancel before they are processed. Beyond it, h2 closes the connection
/// (ENHANCE_YOUR_CALM) to stop a rapid reset attack (CVE-2023-44487). A client that cancels many waiting calls is no
/// attack (qdrant #1907). A connection never has more of them than it reads in one turn.
const PENDING_RESETS_MAX: usize = 256;
/// The most streams that the server resets in the life of a connection because the client broke the protocol on them,
/// such as data beyond the window. Beyond it, h2 closes the connection (ENHANCE_YOUR_CALM), because each reset may
/// abandon work that has begun (CVE-2025-8671).
const ERROR_RESETS_MAX: usize = 1_024;

/// Serves HTTP/2.
#[derive(Clone)]
pub(super) struct Http2 {
    builder: Builder<TokioExecutor>,
    calls: OpenCalls,
    refusals: Arc<Refusals>,
    turns: Turns,
    access: Option<Arc<Access>>,
    faults: Option<Arc<Faults>>,
}

impl Http2 {
    /// With a bound on the open calls of all connections, and perhaps an access file and faults on demand.
    pub(super) fn new(
        calls: OpenCalls,
        refusals: Arc<Refusals>,
        access: Option<Arc<Access>>,
        faults: Option<Arc<Faults>>,
    ) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADER_LIST_MAX)
            .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
            .max_local_error_reset_streams(ERROR_RESETS_MAX);
        Self { builder, calls, refusals, turns: Turns::new(), access, faults }
    }

    /// Serves connections until `closing` resolves. Then asks those that are open to close, and waits until they have.
    ///
    /// Dropped, it accepts no more connections; open ones end with the runtime.
    pub(super) async fn serve<S>(
        self,
        service: S,
        connections: impl Stream<Item = Connection>,
        closing: impl Future<Output = ()>,
    ) where
        S: Service<Request<TakenBody<Incoming>>, Response = Response<Body>, Error = Infallible>
            + Clone
            + Send
            + 'static,
        S::Future: Send,
    {
        let open = GracefulShutdown::new();
        {
            // Dropped at the end of the block: from then on, connecting fails at once.
            let (mut connections, mut closing) = (pin!(connections), pin!(closing));
            loop {
                tokio::select! {
                    () = &mut closing => break,
                    Some(connection) = connections.next() => {
                        tokio::spawn(self.clone().serve_one(service.clone(), connection, open.watcher()));
                    }
                }
            }
        }
        open.shutdown().await;
    }

    async fn serve_one<S>(self, service: S, connection: Connection, open: Watcher)
    where
        S: Service<Request<TakenBody<Incoming>>, Response = Response<Body>, Error = Infallible>
            + Clone
            + Send
            + 'static,
        S::Future: Send,
    {
        let (peer, taken) = (connection.peer(), connection.taken());
        let (turn, unread) = (self.turns.turn(), Unread::default());
        // What the callers on it show. Without an access file nobody asks.
        let certificate = connection.certificate();
        let shown = self.access.clone().map(|access| access::Connection::new(access, peer.network(), certificate));
        let origin = Origin::new(peer, shown);
        // It is called as it is, and not cloned for each call, which would be the way to wait until it is ready. Our
        // services always are: bounds refuse calls, they do not delay them.
        let service = RefCell::new(unread.count(self.calls.bound(service)));
        let calls = turn.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(origin.clone());
            calls.begins(service.borrow_mut().call(request.map(|body| taken.count(body))))
        });
        let serving = self.builder.serve_connection(TokioIo::new(turn.reads(connection)), service);
        tokio::select! {
            served = turn.serves(open.watch(serving)) => match served {
                Ok(()) => {}
                Err(error) if is_flood(&error) => self.refusals.count(Bound::Resets, Some(peer)),
                Err(error) => tracing::debug!(%peer, %error, "a connection broke"),
            },
            // Dropped, `serving` closes the connection.
            () = unread.expired() => self.refusals.count(Bound::Unread, Some(peer)),
            () = is_cut(self.faults.as_deref()) => tracing::info!(%peer, "connection cut: a test dropped a reply"),
        }
    }
}

/// Resolves when a fault on demand cuts connections.
async fn is_cut(faults: Option<&Faults>) {
    match faults {
        Some(faults) => faults.cut().await,
        None => pending().await,
    }
}

/// Whether h2 closed the connection to stop a flood of resets, or of small frames.
fn is_flood(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| cause.is_library() && cause.reason() == Some(Reason::ENHANCE_YOUR_CALM))
}
