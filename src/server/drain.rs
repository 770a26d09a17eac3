//! The drain: an orderly shutdown within a bounded time, whatever clients do.
//!
//! 1. Health becomes NOT_SERVING. New acquires are refused, waiting calls end, and streams are notified to attach
//!    elsewhere. Release, Renew and open streams are still served, so no holder loses a lease.
//! 2. When no call waits and no stream is open, or after the drain timeout, streams end and connections are asked to
//!    close.
//! 3. Connections that have not closed by then are cut: one with an open stream would stay open.

use super::health::{Health, Readiness};
use crate::{locks::Locks, store::Store};
use futures_util::FutureExt;
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};
use tokio::{sync::oneshot, time::timeout};

/// Resolves when connections should close.
pub(super) type Closing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How long connections have to close when asked to.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Drives `serve`, which ends when the future that it gets has resolved and all connections have closed.
pub(super) async fn serve_until_drained<S: Store, F>(
    serve: impl FnOnce(Closing) -> F,
    locks: &Arc<Locks<S>>,
    health: &Health,
    drain_timeout: Duration,
    shutdown: impl Future<Output = ()> + Send + 'static,
) where
    F: Future<Output = ()>,
{
    let (close, closing) = oneshot::channel::<()>();
    // An error means that the sender is gone: close as well.
    let mut serving = std::pin::pin!(serve(Box::pin(closing.map(drop))));
    tokio::select! {
        () = &mut serving => return,
        () = drained(locks, health, drain_timeout, shutdown) => {}
    }
    // The receiver is in `serving`. It is gone only if that has ended.
    let _ = close.send(());
    if timeout(CLOSE_TIMEOUT, serving).await.is_err() {
        tracing::warn!("aborting connections that did not close in time");
    }
    tracing::info!("drained");
}

/// Resolves when the drain has been requested, and all waiting calls and streams have ended or the timeout is over.
async fn drained<S: Store>(
    locks: &Arc<Locks<S>>,
    health: &Health,
    drain_timeout: Duration,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let mut shutdown = Box::pin(shutdown);
    tokio::select! {
        () = &mut shutdown => {}
        // An operator drains it. Signals still count: the first one asks for what goes on already.
        () = locks.draining() => drop(tokio::spawn(shutdown)),
    }
    let (waiters, streams) = locks.busy();
    tracing::info!(waiters, streams, "draining: no new acquires");
    locks.drain();
    health.set(Readiness::Draining).await;
    if timeout(drain_timeout, locks.quiet()).await.is_err() {
        let (waiters, streams) = locks.busy();
        tracing::warn!(waiters, streams, "drain timeout is over; ending waiting calls and streams");
    }
    locks.end_streams();
}
