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

use crate::{domain::limits::REQUEST_BYTES_MAX, locks::Locks, store::Store};
use fencepost_proto::v1::{
    DESCRIPTORS, admin_service_server::AdminServiceServer, lock_service_server::LockServiceServer,
};
use std::{sync::Arc, time::Duration};
use tonic::service::Routes;

/// The full names of the services, as health checks ask for them. The empty name stands for the whole server.
pub const SERVICE_NAMES: [&str; 3] = ["", "fencepost.v1.LockService", "fencepost.v1.AdminService"];

/// The RPCs over one lock service.
struct Api<S> {
    locks: Arc<Locks<S>>,
    drain_grace: Duration,
}

impl<S> Clone for Api<S> {
    fn clone(&self) -> Self {
        Self { locks: self.locks.clone(), drain_grace: self.drain_grace }
    }
}

/// All services of the API, with reflection (v1 and v1alpha, for older tools).
pub fn routes<S: Store>(
    locks: &Arc<Locks<S>>,
    drain_grace: Duration,
) -> Result<Routes, tonic_reflection::server::Error> {
    let api = Api { locks: locks.clone(), drain_grace };
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // So that tools can read the details of errors.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    let mut routes = Routes::builder();
    routes
        .add_service(LockServiceServer::new(api.clone()).max_decoding_message_size(REQUEST_BYTES_MAX))
        .add_service(AdminServiceServer::new(api).max_decoding_message_size(REQUEST_BYTES_MAX))
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    Ok(routes.routes())
}
