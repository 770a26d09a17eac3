//! The gRPC edge, the only module that knows the generated types. It checks a request, converts it, calls the service,
//! and converts the answer.

mod admin;
mod convert;
mod deadline;
mod dispatch;
mod fields;
mod keepalive;
mod lock;
pub mod peer;
mod reply;
mod session;
mod status;

pub use deadline::deadline;
pub use status::{deadline_exceeded, request_too_slow, too_many_calls};

use crate::{
    domain::limits::REQUEST_BYTES_MAX,
    locks::Locks,
    store::Store,
    telemetry::{metrics::CallMetrics, traces::Traces},
};
use dispatch::Caller;
use fencepost_proto::v1::{
    DESCRIPTORS, admin_service_server::AdminServiceServer, lock_service_server::LockServiceServer,
};
use std::{sync::Arc, time::Duration};
use tonic::service::{Routes, RoutesBuilder};
use tonic_reflection::server::Error;

const LOCK_SERVICE: &str = "fencepost.v1.LockService";
const ADMIN_SERVICE: &str = "fencepost.v1.AdminService";
const HEALTH_SERVICE: &str = "grpc.health.v1.Health";

/// The names of which health checks may ask. The empty name stands for the whole server.
pub fn service_names(with_admin: bool) -> &'static [&'static str] {
    const NAMES: [&str; 3] = ["", LOCK_SERVICE, ADMIN_SERVICE];
    if with_admin { &NAMES } else { &NAMES[..2] }
}

/// The RPCs over one lock service.
struct Api<S> {
    locks: Arc<Locks<S>>,
    drain_grace: Duration,
    metrics: Arc<CallMetrics>,
    traces: Traces,
}

impl<S> Api<S> {
    fn caller<T>(&self, request: &tonic::Request<T>) -> Caller {
        Caller::of(request, &self.metrics, &self.traces)
    }
}

impl<S> Clone for Api<S> {
    fn clone(&self) -> Self {
        Self {
            locks: self.locks.clone(),
            drain_grace: self.drain_grace,
            metrics: self.metrics.clone(),
            traces: self.traces.clone(),
        }
    }
}

/// The services of the API, with reflection. `with_admin`: AdminService is one of them.
pub fn routes<S: Store>(
    locks: &Arc<Locks<S>>,
    drain_grace: Duration,
    metrics: &Arc<CallMetrics>,
    traces: &Traces,
    with_admin: bool,
) -> Result<Routes, Error> {
    let api = Api { locks: locks.clone(), drain_grace, metrics: metrics.clone(), traces: traces.clone() };
    let mut routes = Routes::builder();
    routes.add_service(LockServiceServer::new(api.clone()).max_decoding_message_size(REQUEST_BYTES_MAX));
    let mut names = vec![LOCK_SERVICE, HEALTH_SERVICE];
    if with_admin {
        routes.add_service(admin_service(api));
        names.push(ADMIN_SERVICE);
    }
    add_reflection(&mut routes, &names)?;
    Ok(routes.routes())
}

/// AdminService alone, with reflection.
pub fn admin_routes<S: Store>(
    locks: &Arc<Locks<S>>,
    drain_grace: Duration,
    metrics: &Arc<CallMetrics>,
    traces: &Traces,
) -> Result<Routes, Error> {
    let mut routes = Routes::builder();
    routes.add_service(admin_service(Api {
        locks: locks.clone(),
        drain_grace,
        metrics: metrics.clone(),
        traces: traces.clone(),
    }));
    add_reflection(&mut routes, &[ADMIN_SERVICE])?;
    Ok(routes.routes())
}

fn admin_service<S: Store>(api: Api<S>) -> AdminServiceServer<Api<S>> {
    AdminServiceServer::new(api).max_decoding_message_size(REQUEST_BYTES_MAX)
}

/// Adds reflection that lists these services and itself: v1, and v1alpha for older tools.
fn add_reflection(routes: &mut RoutesBuilder, services: &[&str]) -> Result<(), Error> {
    let reflection = |own: &str| {
        let builder = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // So that tools can read the details of errors.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET);
        services.iter().fold(builder.with_service_name(own), |builder, name| builder.with_service_name(*name))
    };
    routes
        .add_service(reflection("grpc.reflection.v1.ServerReflection").build_v1()?)
        .add_service(reflection("grpc.reflection.v1alpha.ServerReflection").build_v1alpha()?);
    Ok(())
}
