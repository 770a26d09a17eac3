//! Bounds the time in which the message of a unary request arrives. A client that sends the headers of a call and not
//! its message would otherwise keep the call, and its stream, for as long as it likes.

use crate::{
    api::{self, peer::Peer},
    server::refusals::Refusals,
    telemetry::metrics::{Bound, Method},
};
use hyper::{
    Request,
    body::{Body as HttpBody, Bytes, Frame, SizeHint},
};
use pin_project_lite::pin_project;
use std::{
    error::Error,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tower::{Layer, Service};

/// The time in which the message of a unary call must arrive, once the server waits for it: 64 KiB over a slow line.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Bounds the time of requests.
#[derive(Clone)]
pub(in crate::server) struct RequestTimeLayer(pub(in crate::server) Arc<Refusals>);

impl<S> Layer<S> for RequestTimeLayer {
    type Service = RequestTime<S>;

    fn layer(&self, inner: S) -> RequestTime<S> {
        RequestTime { inner, refusals: self.0.clone() }
    }
}

/// A service whose requests arrive in time.
#[derive(Clone)]
pub(in crate::server) struct RequestTime<S> {
    inner: S,
    refusals: Arc<Refusals>,
}

impl<S, B> Service<Request<B>> for RequestTime<S>
where
    S: Service<Request<Timely<B>>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        let bound = (!Method::of(request.uri().path()).takes_stream())
            .then(|| TimeBound { refusals: self.refusals.clone(), peer: Peer::of(request.extensions()) });
        self.inner.call(request.map(|body| Timely { body, bound, over: None }))
    }
}

/// Who is told when the time is over.
struct TimeBound {
    refusals: Arc<Refusals>,
    peer: Option<Peer>,
}

pin_project! {
    /// The body of a request. Fails when its time is over.
    pub(in crate::server) struct Timely<B> {
        #[pin]
        body: B,
        // `None` if the request is a stream.
        bound: Option<TimeBound>,
        // Set when it has to wait for the client. Most messages arrive together with their headers.
        over: Option<Pin<Box<Sleep>>>,
    }
}

impl<B> HttpBody for Timely<B>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.project();
        if let Poll::Ready(frame) = this.body.poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| Status::from_error(error.into()))));
        }
        let Some(TimeBound { refusals, peer }) = this.bound else { return Poll::Pending };
        let over = this.over.get_or_insert_with(|| Box::pin(sleep(REQUEST_TIMEOUT)));
        ready!(over.as_mut().poll(context));
        refusals.count(Bound::RequestTime, *peer);
        Poll::Ready(Some(Err(api::request_too_slow(REQUEST_TIMEOUT))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
