//! A span for each call, with the caller's span as its parent.

use super::status;
use crate::telemetry::traces::{Traces, failed};
use hyper::{
    HeaderMap, Request, Response,
    body::{Body as HttpBody, Bytes, Frame, SizeHint},
};
use opentelemetry::{Context as Span, KeyValue, propagation::Extractor, trace::TraceContextExt};
use pin_project_lite::pin_project;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

/// Makes a span for each call, if traces are on.
#[derive(Clone)]
pub(in crate::server) struct TracesLayer {
    traces: Traces,
}

impl TracesLayer {
    pub(in crate::server) fn new(traces: Traces) -> Self {
        Self { traces }
    }
}

impl<S> Layer<S> for TracesLayer {
    type Service = Traced<S>;

    fn layer(&self, inner: S) -> Traced<S> {
        Traced { inner, traces: self.traces.clone() }
    }
}

/// A service whose calls have spans.
#[derive(Clone)]
pub(in crate::server) struct Traced<S> {
    inner: S,
    traces: Traces,
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(hyper::header::HeaderName::as_str).collect()
    }
}

impl<S, B> Service<Request<B>> for Traced<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Spanned<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let span = self.traces.call(request.uri().path(), &Headers(request.headers()));
        Spanned { span, work: self.inner.call(request) }
    }
}

/// Notes the status of a call in its span.
fn note(span: &Span, code: usize) {
    span.span().set_attribute(KeyValue::new("rpc.grpc.status_code", i64::try_from(code).unwrap_or(i64::MAX)));
    if code != status::OK {
        failed(Some(span), status::name(code));
    }
}

pin_project! {
    /// The answer to a call.
    pub(in crate::server) struct Spanned<F> {
        span: Option<Span>,
        #[pin]
        work: F,
    }
}

impl<F, E> Future for Spanned<F>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = {
            let _present = this.span.clone().map(Span::attach);
            ready!(this.work.poll(context))
        };
        let Some(span) = this.span.take() else { return Poll::Ready(answer) };
        Poll::Ready(answer.map(|response| match status::code(response.headers()) {
            Some(code) => {
                note(&span, code);
                response
            }
            // The body has the status in its trailers, and a stream goes on with its work when its body is polled.
            None => response.map(|body| Body::new(SpannedBody { span, body })),
        }))
    }
}

pin_project! {
    struct SpannedBody {
        span: Span,
        #[pin]
        body: Body,
    }
}

impl HttpBody for SpannedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.project();
        let frame = {
            let _present = this.span.clone().attach();
            ready!(this.body.poll_frame(context))
        };
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            note(this.span, status::code(trailers).unwrap_or(status::OK));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
