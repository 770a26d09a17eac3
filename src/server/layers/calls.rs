//! Counts calls by method and status, and measures their time.
//!
//! When the client gives up, the future is dropped. So a guard counts the call when it is dropped.

use super::status::{OK, code};
use crate::telemetry::metrics::{CANCELLED, CallMetrics, Method, UNKNOWN};
use hyper::{
    Request, Response, StatusCode,
    body::{Body as HttpBody, Bytes, Frame, SizeHint},
};
use pin_project_lite::pin_project;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::time::Instant;
use tonic::{Status, body::Body};
use tower::{Layer, Service};

/// Counts the calls of a service.
#[derive(Clone)]
pub(in crate::server) struct CallsLayer {
    metrics: Arc<CallMetrics>,
}

impl CallsLayer {
    pub(in crate::server) fn new(metrics: Arc<CallMetrics>) -> Self {
        Self { metrics }
    }
}

impl<S> Layer<S> for CallsLayer {
    type Service = Calls<S>;

    fn layer(&self, inner: S) -> Calls<S> {
        Calls { inner, metrics: self.metrics.clone() }
    }
}

/// A service whose calls are counted.
#[derive(Clone)]
pub(in crate::server) struct Calls<S> {
    inner: S,
    metrics: Arc<CallMetrics>,
}

impl<S, B> Service<Request<B>> for Calls<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answered<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let method = Method::of(request.uri().path());
        let call = Call { metrics: self.metrics.clone(), method, arrived: Instant::now(), code: CANCELLED };
        Answered { call: Some(call), answer: self.inner.call(request) }
    }
}

/// A call under way. Dropped, it has ended.
struct Call {
    metrics: Arc<CallMetrics>,
    method: Method,
    arrived: Instant,
    /// The code if it ends now.
    code: usize,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.metrics.ended(self.method, self.code);
        if let Some(seconds) = self.metrics.seconds(self.method) {
            seconds.observe(self.arrived.elapsed().as_secs_f64());
        }
    }
}

pin_project! {
    /// The answer to a call.
    pub(in crate::server) struct Answered<F> {
        call: Option<Call>,
        #[pin]
        answer: F,
    }
}

impl<F, E> Future for Answered<F>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.answer.poll(context));
        let Some(mut call) = this.call.take() else { return Poll::Ready(answer) };
        let Ok(response) = answer else {
            call.code = UNKNOWN;
            return Poll::Ready(answer);
        };
        match code(response.headers()) {
            // An error has its code in the head.
            Some(code) => call.code = code,
            None if response.status() != StatusCode::OK => call.code = UNKNOWN,
            None if call.method.is_stream() => {
                return Poll::Ready(Ok(response.map(|body| Body::new(Streamed { call, body }))));
            }
            None => call.code = OK,
        }
        Poll::Ready(Ok(response))
    }
}

pin_project! {
    /// The body of a stream, which has the code of the call at its end.
    struct Streamed {
        call: Call,
        #[pin]
        body: Body,
    }
}

impl HttpBody for Streamed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    this.call.code = code(trailers).unwrap_or(OK);
                }
            }
            Some(Err(_)) => this.call.code = UNKNOWN,
            None if this.call.code == CANCELLED => this.call.code = UNKNOWN,
            None => {}
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
