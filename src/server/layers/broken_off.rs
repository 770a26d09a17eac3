//! Ends a call as CANCELLED whose request broke off: the client reset it, or its connection is gone. No answer reaches
//! the client then.
//!
//! hyper drops a call that waits for something else than its request. But one that reads its request learns of the end
//! first, and answers: INTERNAL after a reset, because tonic takes that for a request without its message, or UNKNOWN.
//! Metrics and traces would blame the server for what the client did.

use crate::api;
use hyper::{
    Request, Response,
    body::{Body as HttpBody, Bytes, Frame, SizeHint},
};
use pin_project_lite::pin_project;
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

/// Ends calls whose requests broke off.
#[derive(Clone, Copy)]
pub(in crate::server) struct BrokenOffLayer;

impl<S> Layer<S> for BrokenOffLayer {
    type Service = BrokenOff<S>;

    fn layer(&self, inner: S) -> BrokenOff<S> {
        BrokenOff { inner }
    }
}

/// A service that knows whose request broke off.
#[derive(Clone)]
pub(in crate::server) struct BrokenOff<S> {
    inner: S,
}

/// Whether a request broke off. The call and its request body share it, within one task.
type Broken = Arc<AtomicBool>;

impl<S> Service<Request<Body>> for BrokenOff<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answered<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let broken = Broken::default();
        let request = request.map(|body| Body::new(Watched { body, broken: broken.clone() }));
        Answered { call: self.inner.call(request), broken }
    }
}

pin_project! {
    /// The body of a request.
    struct Watched {
        #[pin]
        body: Body,
        broken: Broken,
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(context));
        // A body of HTTP/2 fails only when its stream is over for both sides.
        if let Some(Err(_)) = &frame {
            this.broken.store(true, Relaxed);
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

pin_project! {
    /// The answer to a call.
    pub(in crate::server) struct Answered<F> {
        #[pin]
        call: F,
        broken: Broken,
    }
}

impl<F, E> Future for Answered<F>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.call.poll(context));
        Poll::Ready(if this.broken.load(Relaxed) { Ok(api::broken_off().into_http()) } else { answer })
    }
}
