//! Blames the client for a request that cannot be read: one that is no message of protobuf, or not framed as gRPC asks.
//!
//! tonic answers such a call with INTERNAL before the call begins. Metrics, traces and alerts would count it as a
//! failure of the server, whose own calls never end so.

use crate::api;
use futures_util::{TryFutureExt, future::MapOk};
use hyper::{Request, Response};
use std::task::{Context, Poll};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

/// Answers requests that cannot be read with INVALID_ARGUMENT.
#[derive(Clone, Copy)]
pub(in crate::server) struct UnreadableLayer;

impl<S> Layer<S> for UnreadableLayer {
    type Service = Unreadable<S>;

    fn layer(&self, inner: S) -> Unreadable<S> {
        Unreadable { inner }
    }
}

/// A service that is not blamed for requests that cannot be read.
#[derive(Clone)]
pub(in crate::server) struct Unreadable<S> {
    inner: S,
}

impl<S, B> Service<Request<B>> for Unreadable<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = MapOk<S::Future, fn(Response<Body>) -> Response<Body>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.inner.call(request).map_ok(corrected)
    }
}

/// The response, unless its head says INTERNAL.
fn corrected(response: Response<Body>) -> Response<Body> {
    let refused = Status::from_header_map(response.headers()).and_then(|status| api::unreadable(&status));
    refused.map_or(response, Status::into_http)
}
