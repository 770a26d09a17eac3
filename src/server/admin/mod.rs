//! The admin port: metrics, probes, build info and AdminService, on a port of its own without TLS.
//!
//! One port speaks HTTP/1.1 for scrapers and probes, and HTTP/2 for gRPC. It stays open while the server drains, so
//! that the drain can be watched to its end.

mod build;
mod hosts;
mod pages;

pub(super) use build::Build;
pub(super) use hosts::Hosts;
pub(super) use pages::Pages;

use super::{
    accept::accepted_tcp,
    listen::{ListenError, only_loopback, tcp},
};
use crate::config::{AdminListen, Config};
use axum::Router;
use hyper::service::{Service, service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use std::{
    convert::Infallible,
    io::{self, ErrorKind},
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

/// Open connections. Further ones are closed at once: a scraper, a few probes and an operator need a handful.
const CONNECTIONS_MAX: usize = 64;
/// The first request of a connection must arrive within this time.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection on which no request has begun for this time, to twice of it, is closed. Longer than common scrape
/// intervals, so that a scraper keeps its connection.
const IDLE_MAX: Duration = Duration::from_secs(2 * 60);
/// HTTP/2 streams of a connection.
const STREAMS_MAX: u32 = 64;
/// At the end of the server, requests under way have this time.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What to do about an admin port that other machines can reach. Unlike the API it never has TLS.
const PLAINTEXT: &str = "has no TLS, so anybody on the network could revoke leases and drain the server: give \
                         --plaintext if only scrapers and operators can reach it";

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
    if !config.plaintext {
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
    open: JoinSet<()>,
    closing: CancellationToken,
}

impl Admin {
    /// The admin port on these listeners; without any there is none.
    pub(super) fn new(listeners: Vec<TcpListener>, router: Router) -> Self {
        Self { listeners, router, open: JoinSet::new(), closing: CancellationToken::new() }
    }

    /// Serves. Never ends. Dropped, it accepts no more connections; the open ones are served until [`Self::close`].
    pub(super) async fn run(&mut self) -> Infallible {
        if self.listeners.is_empty() {
            return std::future::pending().await;
        }
        let mut accepted = accepted_tcp(std::mem::take(&mut self.listeners));
        loop {
            tokio::select! {
                stream = accepted.next() => match stream {
                    Some(stream) if self.open.len() < CONNECTIONS_MAX => {
                        self.open.spawn(serve(stream, self.router.clone(), self.closing.clone()));
                    }
                    Some(_) => tracing::debug!(CONNECTIONS_MAX, "admin port: too many connections"),
                    // It never ends.
                    None => {}
                },
                Some(_) = self.open.join_next() => {}
            }
        }
    }

    /// Closes the connections, once their requests are answered or [`CLOSE_TIMEOUT`] is over.
    pub(super) async fn close(mut self) {
        self.closing.cancel();
        let closed = async { while self.open.join_next().await.is_some() {} };
        // Those that are still open are cut when the set is dropped.
        let _ = timeout(CLOSE_TIMEOUT, closed).await;
    }
}

/// Serves one connection until it ends, is idle for too long, or `closing` is cancelled and its requests are answered.
async fn serve(stream: TcpStream, router: Router, closing: CancellationToken) {
    let begun = AtomicU64::new(0);
    let service = TowerToHyperService::new(router);
    let counted = service_fn(|request| {
        begun.fetch_add(1, Ordering::Relaxed);
        service.call(request)
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(STREAMS_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), counted));
    tokio::select! {
        // An error means that the peer is gone, or does not speak HTTP.
        _ = &mut connection => return,
        () = idle(&begun) => return,
        () = closing.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// Resolves when no request has begun for too long.
async fn idle(begun: &AtomicU64) {
    let (mut seen, mut patience) = (0, FIRST_REQUEST_TIMEOUT);
    loop {
        sleep(patience).await;
        let now = begun.load(Ordering::Relaxed);
        if now == seen {
            return;
        }
        (seen, patience) = (now, IDLE_MAX);
    }
}
