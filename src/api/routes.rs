//! The services of a port, and how a call finds its own.

use super::{ADMIN_SERVICE, Api, Guard, HEALTH_SERVICE, LOCK_SERVICE, peer::Origin};
use crate::{domain::limits::REQUEST_BYTES_MAX, store::Store};
use fencepost_proto::v1::{
    DESCRIPTORS, admin_service_server::AdminServiceServer, lock_service_server::LockServiceServer,
};
use futures_util::future::Either;
use hyper::{
    Request as HttpRequest, Response,
    body::{Body as HttpBody, Bytes},
};
use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};
use tonic::{
    Request, Status,
    body::Body,
    codegen::{BoxFuture, StdError},
    service::{Routes, RoutesBuilder, interceptor::InterceptedService},
};
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_reflection::server::Error;
use tower::Service;

/// The services of the main port. Calls of LockService, nearly all that come, go past tonic's router, because it boxes
/// their bodies and futures once more.
pub struct Services<S: Store> {
    locks: LockServiceServer<Api<S>>,
    others: Routes,
}

impl<S: Store> Clone for Services<S> {
    fn clone(&self) -> Self {
        Self { locks: self.locks.clone(), others: self.others.clone() }
    }
}

impl<S, B> Service<HttpRequest<B>> for Services<S>
where
    S: Store,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError> + Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<BoxFuture<Self::Response, Infallible>, <Routes as Service<HttpRequest<B>>>::Future>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Those of tonic always are.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        let service = request.uri().path().strip_prefix('/').and_then(|path| path.split_once('/'));
        match service {
            Some((LOCK_SERVICE, _)) => Either::Left(self.locks.call(request)),
            _ => Either::Right(self.others.call(request)),
        }
    }
}

/// The services of the API, with reflection and `health`. `with_admin`: AdminService is one of them.
pub fn services<S: Store>(
    api: &Api<S>,
    health: HealthServer<impl Health>,
    with_admin: bool,
) -> Result<Services<S>, Error> {
    let locks = LockServiceServer::new(api.clone()).max_decoding_message_size(REQUEST_BYTES_MAX);
    let mut routes = Routes::builder();
    routes.add_service(health);
    let mut names = vec![LOCK_SERVICE, HEALTH_SERVICE];
    if with_admin {
        routes.add_service(admin_service(api.clone()));
        names.push(ADMIN_SERVICE);
    }
    add_reflection(&mut routes, &names, api.guard.as_ref())?;
    Ok(Services { locks, others: routes.routes().prepare() })
}

/// AdminService alone, with reflection.
pub fn admin_routes<S: Store>(api: &Api<S>) -> Result<Routes, Error> {
    let mut routes = Routes::builder();
    routes.add_service(admin_service(api.clone()));
    add_reflection(&mut routes, &[ADMIN_SERVICE], api.guard.as_ref())?;
    Ok(routes.routes())
}

fn admin_service<S: Store>(api: Api<S>) -> AdminServiceServer<Api<S>> {
    AdminServiceServer::new(api).max_decoding_message_size(REQUEST_BYTES_MAX)
}

/// Adds reflection that lists these services and itself: v1, and v1alpha for older tools. It describes the server to
/// those who have an identity.
fn add_reflection(routes: &mut RoutesBuilder, services: &[&str], guard: Option<&Arc<Guard>>) -> Result<(), Error> {
    let guard = guard.cloned();
    let known = move |request: Request<()>| {
        if let Some(guard) = &guard {
            guard.visitor(request.metadata().as_ref(), Origin::of(request.extensions())).is_known()?;
        }
        Ok::<_, Status>(request)
    };
    let reflection = |own: &str| {
        let builder = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // So that tools can read the details of errors.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET);
        services.iter().fold(builder.with_service_name(own), |builder, name| builder.with_service_name(*name))
    };
    routes
        .add_service(InterceptedService::new(
            reflection("grpc.reflection.v1.ServerReflection").build_v1()?,
            known.clone(),
        ))
        .add_service(InterceptedService::new(
            reflection("grpc.reflection.v1alpha.ServerReflection").build_v1alpha()?,
            known,
        ));
    Ok(())
}
