//! The drain: an orderly shutdown within a bounded time, whatever clients do.
//!
//! 1. Health becomes NOT_SERVING. New acquires are refused, waiting calls end, and streams are notified to attach
//!    elsewhere. Release, Renew and open streams are still served, so no holder loses a lease.
//! 2. When no call waits and no stream is open, or after the drain timeout, streams end and connections are asked to
//!    close.
//! 3. Connections that have not closed by then are cut: tonic's own shutdown waits forever for open streams.

use super::{ServeError, accept::Connection, set_health};
use crate::{locks::Locks, store::Store};
use std::{convert::Infallible, future::Future, sync::Arc, time::Duration};
use tokio::{sync::oneshot, time::timeout};
use tokio_stream::Stream;
use tonic::transport::server::Router;
use tonic_health::{ServingStatus, server::HealthReporter};

/// How long connections have to close when asked to.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) async fn serve_until_drained<S: Store>(
    router: Router,
    connections: impl Stream<Item = Result<Connection, Infallible>>,
    locks: &Arc<Locks<S>>,
    health: &HealthReporter,
    drain_timeout: Duration,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let (close, closing) = oneshot::channel::<()>();
    let mut serving = std::pin::pin!(router.serve_with_incoming_shutdown(connections, async {
        // An error means that the sender is gone: close as well.
        let _ = closing.await;
    }));
    tokio::select! {
        served = &mut serving => return Ok(served?),
        () = drained(locks, health, drain_timeout, shutdown) => {}
    }
    // The receiver is in `serving`. It is gone only if that has ended.
    let _ = close.send(());
    if timeout(CLOSE_TIMEOUT, serving).await.is_err() {
        tracing::warn!("cutting connections that did not close in time");
    }
    tracing::info!("drained");
    Ok(())
}

/// Resolves when the drain has been requested, and all waiting calls and streams have ended or the timeout is over.
async fn drained<S: Store>(
    locks: &Arc<Locks<S>>,
    health: &HealthReporter,
    drain_timeout: Duration,
    shutdown: impl Future<Output = ()>,
) {
    tokio::select! {
        () = shutdown => {}
        () = locks.draining() => {}
    }
    let (waiters, streams) = locks.busy();
    tracing::info!(waiters, streams, "draining: no new acquires");
    // In this order: `follow_store` no longer sets the health once the drain has begun.
    locks.drain();
    set_health(health, ServingStatus::NotServing).await;
    if timeout(drain_timeout, locks.quiet()).await.is_err() {
        let (waiters, streams) = locks.busy();
        tracing::warn!(waiters, streams, "drain timeout is over; ending waiting calls and streams");
    }
    locks.end_streams();
}
