//! Lets only gRPC through. A web page can make the browser of an operator send requests to any server that the browser
//! reaches, with the operator's client certificate, and the message of a Drain is empty. But a page can send only the
//! content types of forms: for that of gRPC, the browser first asks the server, which does not allow it.
//!
//! The header `origin` need not be looked at, and proxies that translate gRPC-Web pass it on.

use crate::{api::peer::Peer, server::refusals::Refusals, telemetry::metrics::Bound};
use futures_util::future::{Either, Ready, ready};
use hyper::{HeaderMap, Request, Response, StatusCode, header::CONTENT_TYPE};
use std::{
    sync::Arc,
    task::{Context, Poll},
};
use tonic::body::Body;
use tower::{Layer, Service};

const ANSWER: &str = "This is a gRPC server: calls have the content type application/grpc.\n";

/// Answers requests that are no calls of gRPC with HTTP status 415, as gRPC over HTTP/2 says.
#[derive(Clone)]
pub(in crate::server) struct ContentTypeLayer(pub(in crate::server) Arc<Refusals>);

impl<S> Layer<S> for ContentTypeLayer {
    type Service = GrpcOnly<S>;

    fn layer(&self, inner: S) -> GrpcOnly<S> {
        GrpcOnly { inner, refusals: self.0.clone() }
    }
}

/// A service that gets only calls of gRPC.
#[derive(Clone)]
pub(in crate::server) struct GrpcOnly<S> {
    inner: S,
    refusals: Arc<Refusals>,
}

impl<S, B> Service<Request<B>> for GrpcOnly<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if is_grpc(request.headers()) {
            return Either::Left(self.inner.call(request));
        }
        self.refusals.count(Bound::ContentType, Peer::of(request.extensions()));
        let mut response = Response::new(Body::new(ANSWER.to_owned()));
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Either::Right(ready(Ok(response)))
    }
}

/// Whether the messages are those of gRPC with protobuf, the only ones that this server has. `application/grpc-web` is
/// another protocol.
fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(content_type) = headers.get(CONTENT_TYPE) else { return false };
    let essence = content_type.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    ["application/grpc", "application/grpc+proto"].iter().any(|own| essence.eq_ignore_ascii_case(own.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn only_grpc_with_protobuf_is_let_through() {
        let is_grpc = |content_type: &'static str| {
            is_grpc(&[(CONTENT_TYPE, HeaderValue::from_static(content_type))].into_iter().collect())
        };
        for content_type in
            ["application/grpc", "application/grpc+proto", "application/grpc; charset=utf-8", "Application/GRPC ;a=b"]
        {
            assert!(is_grpc(content_type), "{content_type}");
        }
        for content_type in [
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=application/grpc",
            "text/plain; application/grpc",
            "application/grpc-web",
            "application/grpc-web+proto",
            "application/grpc+json",
        ] {
            assert!(!is_grpc(content_type), "{content_type}");
        }
        assert!(!super::is_grpc(&HeaderMap::new()));
    }
}
