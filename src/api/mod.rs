//! The gRPC edge, the only module that knows the generated types. It checks a request, converts it, calls the service,
//! and converts the answer.

mod admin;
mod convert;
mod deadline;
mod dispatch;
mod faults;
mod fields;
mod fingerprint;
mod guard;
mod identity;
mod lock;
mod pages;
pub mod peer;
mod reply;
mod routes;
mod session;
mod shown;
mod status;
mod values;

pub use deadline::deadline;
pub use faults::Faults;
pub use guard::Guard;
pub use identity::StoreIdentity;
pub(crate) use identity::{STORE_ID_METADATA, STORE_METADATA};
pub(crate) use reply::expired_because;
pub use routes::{Services, admin_routes, services};
pub use status::{deadline_exceeded, request_too_slow, too_many_calls, unreadable};

use crate::{
    locks::Locks,
    telemetry::{audit::Audit, metrics::CallMetrics, traces::Traces},
};
use dispatch::Caller;
use pages::PageTurns;
use peer::Origin;
use std::{sync::Arc, time::Duration};

const LOCK_SERVICE: &str = "fencepost.v1.LockService";
const ADMIN_SERVICE: &str = "fencepost.v1.AdminService";
const HEALTH_SERVICE: &str = "grpc.health.v1.Health";

/// The names of which health checks may ask. The empty name stands for the whole server.
pub fn service_names(with_admin: bool) -> &'static [&'static str] {
    const NAMES: [&str; 3] = ["", LOCK_SERVICE, ADMIN_SERVICE];
    if with_admin { &NAMES } else { &NAMES[..2] }
}

/// The RPCs over one lock service.
pub struct Api<S> {
    locks: Arc<Locks<S>>,
    store: StoreIdentity,
    drain_grace: Duration,
    metrics: Arc<CallMetrics>,
    traces: Traces,
    pages: PageTurns,
    faults: Option<Arc<Faults>>,
    guard: Option<Arc<Guard>>,
    audit: Option<Arc<Audit>>,
}

impl<S> Api<S> {
    /// `drain_grace`: how long clients that hold leases have to move to other servers once this one drains.
    pub fn new(
        locks: &Arc<Locks<S>>,
        store: StoreIdentity,
        drain_grace: Duration,
        metrics: &Arc<CallMetrics>,
        traces: &Traces,
    ) -> Self {
        let (locks, metrics, traces) = (locks.clone(), metrics.clone(), traces.clone());
        Self {
            locks,
            store,
            drain_grace,
            metrics,
            traces,
            pages: PageTurns::default(),
            faults: None,
            guard: None,
            audit: None,
        }
    }

    /// The same, with faults on demand.
    #[must_use]
    pub fn with_faults(self, faults: Option<Arc<Faults>>) -> Self {
        Self { faults, ..self }
    }

    /// The same, for those whom an access file permits what they do.
    #[must_use]
    pub fn guarded(self, guard: Option<Arc<Guard>>) -> Self {
        Self { guard, ..self }
    }

    /// The same, and notes in the audit log what operators do.
    #[must_use]
    pub fn audited(self, audit: Option<Arc<Audit>>) -> Self {
        Self { audit, ..self }
    }

    fn caller<T>(&self, request: &tonic::Request<T>) -> Caller {
        let (metrics, traces, faults) = (self.metrics.clone(), self.traces.clone(), self.faults.clone());
        let origin = Origin::of(request.extensions());
        let visitor = self.guard.as_ref().map(|guard| guard.visitor(request.metadata().as_ref(), origin));
        Caller { peer: origin.map(Origin::peer), metrics, traces, faults, visitor }
    }

    /// The answer that begins a stream. Clients keep their leases on it, and move them to other servers: see
    /// [`StoreIdentity`].
    fn stream<T>(&self, messages: T) -> tonic::Response<T> {
        let mut response = tonic::Response::new(messages);
        self.store.add_to(response.metadata_mut());
        response
    }
}

impl<S> Clone for Api<S> {
    fn clone(&self) -> Self {
        Self {
            locks: self.locks.clone(),
            store: self.store.clone(),
            drain_grace: self.drain_grace,
            metrics: self.metrics.clone(),
            traces: self.traces.clone(),
            pages: self.pages.clone(),
            faults: self.faults.clone(),
            guard: self.guard.clone(),
            audit: self.audit.clone(),
        }
    }
}
