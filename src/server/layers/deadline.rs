//! Ends a call at the deadline that its client set (`grpc-timeout`). Only until the response begins, so streams have
//! none. A wait ends a little earlier by itself, so that the client still receives its outcome.

use crate::api;
use hyper::{Request, Response};
use pin_project_lite::pin_project;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::body::Body;
use tower::{Layer, Service};

/// Ends calls at their deadlines.
#[derive(Clone, Copy)]
pub(in crate::server) struct DeadlineLayer;

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, inner: S) -> Deadline<S> {
        Deadline { inner }
    }
}

/// A service whose calls end at their deadlines.
#[derive(Clone)]
pub(in crate::server) struct Deadline<S> {
    inner: S,
}

impl<S, B> Service<Request<B>> for Deadline<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = UntilDeadline<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let over = api::deadline(request.headers(), Instant::now).map(sleep_until);
        UntilDeadline { call: self.inner.call(request), over }
    }
}

pin_project! {
    /// A call. Its handler is dropped at the deadline, together with this.
    pub(in crate::server) struct UntilDeadline<F> {
        #[pin]
        call: F,
        #[pin]
        over: Option<Sleep>,
    }
}

impl<F, E> Future for UntilDeadline<F>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(answer) = this.call.poll(context) {
            return Poll::Ready(answer);
        }
        let Some(over) = this.over.as_pin_mut() else { return Poll::Pending };
        ready!(over.poll(context));
        Poll::Ready(Ok(api::deadline_exceeded().into_http()))
    }
}
