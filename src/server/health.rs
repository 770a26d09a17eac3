//! Whether this server is ready for calls: the one source of gRPC health and of `/readyz`.

use crate::{api::StoreIdentity, telemetry::metrics::Metrics};
use std::{convert::Infallible, fmt, sync::Arc};
use tokio::sync::{Mutex, watch};
use tonic::{Request, Response, Status};
use tonic_health::{
    ServingStatus,
    pb::{
        HealthCheckRequest, HealthCheckResponse,
        health_server::{Health as HealthApi, HealthServer},
    },
    server::{HealthReporter, HealthService},
};

/// Whether this server is ready for calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// The store has not been reached yet.
    Starting,
    /// It is ready.
    Ready,
    /// The store cannot be used.
    StoreDown,
    /// It drains.
    Draining,
}

impl fmt::Display for Readiness {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Starting => "starting: the store has not been reached yet",
            Self::Ready => "ready",
            Self::StoreDown => "store down: the store cannot be reached or used; the log says why",
            Self::Draining => "draining: takes no new work, and ends soon",
        })
    }
}

/// The health of this server.
pub(super) struct Health {
    reporter: HealthReporter,
    services: &'static [&'static str],
    readiness: watch::Sender<Readiness>,
    metrics: Arc<Metrics>,
    /// Held while the health changes, so that gRPC health and `readiness` change in the same order.
    change: Mutex<()>,
}

impl Health {
    /// Health for these services, which are ready before a port answers if the store is there from the start, and the
    /// gRPC service that reports it with the store.
    pub(super) async fn new(
        services: &'static [&'static str],
        store: StoreIdentity,
        metrics: Arc<Metrics>,
        is_up: bool,
    ) -> (Self, HealthServer<impl HealthApi>) {
        let reporter = HealthReporter::new();
        let statuses = HealthService::from_health_reporter(reporter.clone());
        let service = HealthServer::new(WithStore { statuses, store });
        let (readiness, change) = (watch::Sender::new(Readiness::Starting), Mutex::new(()));
        let health = Self { reporter, services, readiness, metrics, change };
        health.set(if is_up { Readiness::Ready } else { Readiness::Starting }).await;
        (health, service)
    }

    /// Changes the health. A server that drains stays so.
    pub(super) async fn set(&self, readiness: Readiness) {
        let _change = self.change.lock().await;
        if *self.readiness.borrow() == Readiness::Draining {
            return;
        }
        let status = match readiness {
            Readiness::Ready => ServingStatus::Serving,
            Readiness::Starting | Readiness::StoreDown | Readiness::Draining => ServingStatus::NotServing,
        };
        for service in self.services {
            self.reporter.set_service_status(service, status).await;
        }
        self.readiness.send_replace(readiness);
        self.metrics.draining.set((readiness == Readiness::Draining).into());
    }

    /// Follows the health.
    pub(super) fn subscribe(&self) -> watch::Receiver<Readiness> {
        self.readiness.subscribe()
    }

    /// Reports whether the store is available, until the server drains. Never ends.
    pub(super) async fn follow_store(&self, mut up: watch::Receiver<bool>) -> Infallible {
        loop {
            let is_up = *up.borrow_and_update();
            self.metrics.store.up.set(is_up.into());
            let before = *self.readiness.borrow();
            match (is_up, before) {
                (true, _) => self.set(Readiness::Ready).await,
                (false, Readiness::Starting) => {}
                (false, _) => self.set(Readiness::StoreDown).await,
            }
            if up.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// Health checks whose answers have the kind and the id of the store as well.
struct WithStore {
    statuses: HealthService,
    store: StoreIdentity,
}

#[tonic::async_trait]
impl HealthApi for WithStore {
    type WatchStream = <HealthService as HealthApi>::WatchStream;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let mut answer = self.statuses.check(request).await?;
        self.store.add_to(answer.metadata_mut());
        Ok(answer)
    }

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.statuses.watch(request).await
    }
}
