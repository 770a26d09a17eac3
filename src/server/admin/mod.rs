//! The admin port: metrics, probes, build info and AdminService, on a port of its own, with or without TLS.
//!
//! One port speaks HTTP/1.1 for scrapers and probes, and HTTP/2 for gRPC. It stays open while the server drains, so
//! that the drain can be watched to its end.

mod build;
mod hosts;
mod open;
mod pages;

pub(super) use build::Build;
pub(super) use hosts::Hosts;
pub(super) use pages::Pages;

use super::{
    accept::accepted_tcp,
    listen::{ListenError, only_loopback, tcp},
    refusals::Refusals,
    tls::Tls,
};
use crate::{
    access::{self, Access},
    api::peer::{Origin, Peer},
    config::{AdminListen, Config},
    telemetry::metrics::Bound,
};
use axum::Router;
use hyper::{
    Request,
    body::Incoming,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use open::{Activity, Connections};
use std::{
    convert::Infallible,
    error::Error,
    io::{self, ErrorKind},
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

/// The first request of a connection must arrive within this time: a round trip, and some packets that are sent again.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection whose client takes no byte of an answer for this time is closed.
const UNREAD_MAX: Duration = Duration::from_secs(10);
/// A connection on which no request has begun for this time, to twice of it, is closed. Longer than common scrape
/// intervals, so that a scraper keeps its connection.
const IDLE_MAX: Duration = Duration::from_secs(2 * 60);
/// HTTP/2 streams of a connection.
const STREAMS_MAX: u32 = 64;
/// At the end of the server, requests under way have this time.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What to do about an admin port without TLS that other machines can reach.
const PLAINTEXT: &str = "has no TLS, so anybody on the network could revoke leases and drain the server: give \
                         --admin-tls, or --plaintext if only scrapers and operators can reach it";

/// Opens the admin port; no listeners if there is none. Needs a running tokio runtime.
pub async fn bind_admin(config: &Config) -> Result<Vec<TcpListener>, ListenError> {
    let AdminListen::At(address) = &config.admin_listen else { return Ok(Vec::new()) };
    let failure = |error: io::Error| {
        let advice = match error.kind() {
            ErrorKind::AddrInUse => "another process uses the port; choose another one with --admin-listen",
            _ => "choose another address with --admin-listen, or none",
        };
        ListenError::Socket { error, advice }
    };
    let listeners = tcp::bind(address).await.map_err(failure)?;
    if !config.plaintext && !config.admin_tls {
        for listener in &listeners {
            only_loopback("admin_listen", address, listener.local_addr().map_err(failure)?, PLAINTEXT)?;
        }
    }
    Ok(listeners)
}

/// The admin port and its connections.
pub(super) struct Admin {
    listeners: Vec<TcpListener>,
    router: Router,
    callers: Callers,
    refusals: Arc<Refusals>,
    open: Connections,
    closing: CancellationToken,
}

/// How callers of the admin port are recognised.
#[derive(Clone, Default)]
pub(super) struct Callers {
    /// The TLS of the port, if it has any.
    pub(super) tls: Option<Arc<Tls>>,
    /// The rules that say who may do what, if there are any.
    pub(super) access: Option<Arc<Access>>,
}

impl Admin {
    /// The admin port on these listeners; without any there is none.
    pub(super) fn new(listeners: Vec<TcpListener>, router: Router, callers: Callers, refusals: Arc<Refusals>) -> Self {
        Self { listeners, router, callers, refusals, open: Connections::default(), closing: CancellationToken::new() }
    }

    /// Serves. Never ends. Dropped, it accepts no more connections; the open ones are served until [`Self::close`].
    pub(super) async fn run(&mut self) -> Infallible {
        if self.listeners.is_empty() {
            return std::future::pending().await;
        }
        let mut accepted = accepted_tcp(std::mem::take(&mut self.listeners));
        loop {
            tokio::select! {
                Some((stream, peer)) = accepted.next() => {
                    let (router, callers) = (self.router.clone(), self.callers.clone());
                    let (refusals, closing) = (self.refusals.clone(), self.closing.clone());
                    let serve = |activity| async move {
                        if let Some((stream, origin)) = opened(stream, peer, callers, &refusals).await {
                            serve(stream, (peer, origin), router, activity, refusals, closing).await;
                        }
                    };
                    if let Some(closed) = self.open.add(peer, serve) {
                        self.refusals.count(Bound::AdminConnections, Some(closed));
                    }
                }
                Some(()) = self.open.next_end() => {}
            }
        }
    }

    /// Closes the connections, once their requests are answered or [`CLOSE_TIMEOUT`] is over.
    pub(super) async fn close(mut self) {
        self.closing.cancel();
        let closed = async { while self.open.next_end().await.is_some() {} };
        // Those that are still open are cut when the set is dropped.
        let _ = timeout(CLOSE_TIMEOUT, closed).await;
    }
}

/// The connection after the handshake of TLS, if the port has that. `None` if it fails.
async fn opened(
    stream: TcpStream,
    peer: Peer,
    callers: Callers,
    refusals: &Refusals,
) -> Option<(Box<dyn Transport>, Arc<Origin>)> {
    let origin = |certificate: Option<&[u8]>| {
        Origin::new(
            peer,
            callers.access.clone().map(|access| access::Connection::new(access, peer.network(), certificate)),
        )
    };
    let Some(tls) = &callers.tls else { return Some((Box::new(stream), origin(None))) };
    match timeout(FIRST_REQUEST_TIMEOUT, TlsAcceptor::from(tls.admin_config()).accept(stream)).await {
        Ok(Ok(stream)) => {
            let origin = origin(stream.get_ref().1.peer_certificates().and_then(|all| Some(all.first()?.as_ref())));
            Some((Box::new(stream), origin))
        }
        Ok(Err(error)) => {
            refusals.log_connection(peer, &format!("TLS of the admin port: {error}"));
            None
        }
        Err(_) => {
            refusals.count(Bound::AdminRequestTime, Some(peer));
            None
        }
    }
}

/// A connection with or without TLS.
trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Serves one connection until it ends, is idle or unread for too long, or `closing` is cancelled and its requests are
/// answered.
async fn serve(
    stream: Box<dyn Transport>,
    (peer, origin): (Peer, Arc<Origin>),
    router: Router,
    activity: Arc<Activity>,
    refusals: Arc<Refusals>,
    closing: CancellationToken,
) {
    let service = TowerToHyperService::new(router);
    let noted = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(origin.clone());
        let (under_way, answer) = (activity.begin_request(), service.call(request));
        async move {
            let _under_way = under_way;
            answer.await
        }
    });
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(UNREAD_MAX));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(STREAMS_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(Box::pin(stream)), noted));
    tokio::select! {
        served = &mut connection => {
            // Another error means that the peer is gone, or does not speak HTTP.
            if served.is_err_and(|error| is_timeout(&*error)) {
                refusals.count(Bound::AdminUnread, Some(peer));
            }
            return;
        }
        () = idle(&activity) => {
            if activity.requests() == 0 {
                refusals.count(Bound::AdminRequestTime, Some(peer));
            }
            return;
        }
        () = closing.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// Resolves when no request has begun for too long.
async fn idle(activity: &Activity) {
    let (mut seen, mut patience) = (0, FIRST_REQUEST_TIMEOUT);
    loop {
        sleep(patience).await;
        let now = activity.requests();
        if now == seen {
            return;
        }
        (seen, patience) = (now, IDLE_MAX);
    }
}

/// Whether a time-out is the cause of an error.
fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    let is = |error: &io::Error| error.kind() == ErrorKind::TimedOut;
    error.downcast_ref().is_some_and(is) || error.source().is_some_and(is_timeout)
}
