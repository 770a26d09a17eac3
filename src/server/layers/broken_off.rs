//! Keeps a call from answering whose request broke off: the client reset it, or its connection is gone.
//!
//! hyper drops such a call once it waits, and it counts as CANCELLED then. But a call that reads its request learns of
//! the end first, and would answer: INTERNAL after a reset, because tonic takes that for a request without its message,
//! or UNKNOWN. Metrics and traces would blame the server for what the client did. So the call waits for the rest of its
//! request instead.

use crate::telemetry::metrics::Method;
use hyper::{
    Request,
    body::{Body as HttpBody, Frame, SizeHint},
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};
use tower::{Layer, Service};

/// Keeps calls from answering whose requests broke off.
#[derive(Clone, Copy)]
pub(in crate::server) struct BrokenOffLayer;

impl<S> Layer<S> for BrokenOffLayer {
    type Service = BrokenOff<S>;

    fn layer(&self, inner: S) -> BrokenOff<S> {
        BrokenOff { inner }
    }
}

/// A service that does not learn of requests that broke off.
#[derive(Clone)]
pub(in crate::server) struct BrokenOff<S> {
    inner: S,
}

impl<S, B> Service<Request<B>> for BrokenOff<S>
where
    S: Service<Request<Unbroken<B>>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        let stream = Method::of(request.uri().path()).takes_stream();
        self.inner.call(request.map(|body| Unbroken { body, stream }))
    }
}

pin_project! {
    /// The body of a request. Unless it is a stream, it does not end when it breaks off.
    pub(in crate::server) struct Unbroken<B> {
        #[pin]
        body: B,
        // A stream is answered before it ends. A task of its own may read it, which has to end with it.
        stream: bool,
    }
}

impl<B: HttpBody> HttpBody for Unbroken<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        match ready!(this.body.poll_frame(context)) {
            // A body of HTTP/2 fails only when its stream is over for both sides. hyper notices that in this same poll,
            // once the call returns, so nothing needs to wake it.
            Some(Err(_)) if !*this.stream => Poll::Pending,
            frame => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
