//! Going away in order, and within a bound whatever clients do.
//!
//! 1. Health turns to not-serving; acquires are refused and those that wait are sent away; streams are told to attach
//!    elsewhere. Release, Renew and the streams that are open are served on, so that no holder loses anything by it.
//! 2. When nobody waits and no stream is open, or when the drain timeout is over, streams end and connections are told
//!    to close.
//! 3. What has not closed by then is cut: tonic's own shutdown waits for ever for open streams, and for connections
//!    that never spoke (hyper #4170).

use super::{ServeError, listen::connections, set_health};
use crate::{locks::Locks, store::Store};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::oneshot, time::timeout};
use tonic::transport::server::Router;
use tonic_health::{ServingStatus, server::HealthReporter};

/// How long connections have to close after they were told to.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) async fn serve_until_drained<S: Store>(
    router: Router,
    listeners: Vec<TcpListener>,
    locks: &Arc<Locks<S>>,
    health: &HealthReporter,
    drain_timeout: Duration,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let (close, closing) = oneshot::channel::<()>();
    let mut serving = std::pin::pin!(router.serve_with_incoming_shutdown(connections(listeners), async {
        // An error means that the sender is gone, which is a reason to close as well.
        let _ = closing.await;
    }));
    tokio::select! {
        served = &mut serving => return Ok(served?),
        () = drained(locks, health, drain_timeout, shutdown) => {}
    }
    // The receiver waits in `serving`: it can be gone only if that has ended.
    let _ = close.send(());
    if timeout(CLOSE_TIMEOUT, serving).await.is_err() {
        tracing::warn!("connections did not close in time and are cut");
    }
    tracing::info!("drained");
    Ok(())
}

/// Resolves when the server was asked to go away and everybody is gone, or has had the time for it.
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
    // In this order: what follows the store says nothing more once the drain has begun.
    locks.drain();
    set_health(health, ServingStatus::NotServing).await;
    if timeout(drain_timeout, locks.quiet()).await.is_err() {
        let (waiters, streams) = locks.busy();
        tracing::warn!(waiters, streams, "drain timeout is over; ending what is open");
    }
    locks.end_streams();
}
