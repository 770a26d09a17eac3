//! Bounds the time in which the message of a unary request arrives. A client that sends the headers of a call and not
//! its message would otherwise keep the call, and its stream, for as long as it likes. A bounded number of calls may
//! wait so at a time.

use super::late::{LATE_PER_PEER, LateCall, LateCalls};
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
pub(in crate::server) struct RequestTimeLayer {
    refusals: Arc<Refusals>,
    late: Arc<LateCalls>,
}

impl RequestTimeLayer {
    pub(in crate::server) fn new(refusals: Arc<Refusals>) -> Self {
        Self { refusals, late: Arc::default() }
    }
}

impl<S> Layer<S> for RequestTimeLayer {
    type Service = RequestTime<S>;

    fn layer(&self, inner: S) -> RequestTime<S> {
        RequestTime { inner, bounds: self.clone() }
    }
}

/// A service whose requests arrive in time.
#[derive(Clone)]
pub(in crate::server) struct RequestTime<S> {
    inner: S,
    bounds: RequestTimeLayer,
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
            .then(|| TimeBound { bounds: self.bounds.clone(), peer: Peer::of(request.extensions()) });
        self.inner.call(request.map(|body| Timely { body, bound, late: None }))
    }
}

/// Who is told when the time is over, or there is no room for another late call.
struct TimeBound {
    bounds: RequestTimeLayer,
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
        late: Option<(Pin<Box<Sleep>>, LateCall)>,
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
        let Some(TimeBound { bounds, peer }) = this.bound else { return Poll::Pending };
        if this.late.is_none() {
            let Some(late) = bounds.late.begin(*peer) else {
                bounds.refusals.count(Bound::LateRequests, *peer);
                let what = "calls from this address wait for their messages";
                return Poll::Ready(Some(Err(api::too_many_calls(what, LATE_PER_PEER))));
            };
            *this.late = Some((Box::pin(sleep(REQUEST_TIMEOUT)), late));
        }
        let Some((over, _)) = this.late else { return Poll::Pending };
        ready!(over.as_mut().poll(context));
        bounds.refusals.count(Bound::RequestTime, *peer);
        Poll::Ready(Some(Err(api::request_too_slow(REQUEST_TIMEOUT))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
