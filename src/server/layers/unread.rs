//! Notices responses that a client does not read. The response of a unary call stays in memory until the client has
//! room for it, for which HTTP/2 has no bound: a client that answers pings may never make room.
//!
//! Streams have bounds of their own: what is not read there is summarized or dropped.

use crate::telemetry::metrics::Method;
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
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::sleep;
use tonic::Status;
use tower::Service;

/// How long a response may be unread: between this time and twice this time, because ages are counted in periods. As
/// long as a ping and its answer, after which a client that reads nothing at all is gone.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

/// The unread responses of one connection.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Unread(Arc<Periods>);

/// Unread responses by the period in which they began. Counts only: nothing is ordered by them.
#[derive(Debug, Default)]
struct Periods {
    /// The number of the current period.
    now: AtomicUsize,
    /// Those of periods with an even number, and of those with an odd number.
    responses: [AtomicUsize; 2],
}

impl Unread {
    /// The same service, whose unary responses are counted until they have been read.
    pub(in crate::server) fn count<S>(&self, inner: S) -> Counted<S> {
        Counted { inner, unread: self.clone() }
    }

    /// Resolves when a response has not been read for a whole period.
    pub(in crate::server) async fn expired(&self) {
        let Periods { now, responses } = &*self.0;
        loop {
            sleep(RESPONSE_TIMEOUT).await;
            let next = now.load(Relaxed).wrapping_add(1);
            // Those that share the slot with the next period began in the period before the last.
            if responses[next % 2].load(Relaxed) > 0 {
                return;
            }
            now.store(next, Relaxed);
        }
    }

    fn begun(self) -> Begun {
        let slot = self.0.now.load(Relaxed) % 2;
        self.0.responses[slot].fetch_add(1, Relaxed);
        Begun { unread: self, slot }
    }
}

/// A response that has begun. Dropped, it has been read, or the client has given up.
struct Begun {
    unread: Unread,
    slot: usize,
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.unread.0.responses[self.slot].fetch_sub(1, Relaxed);
    }
}

/// The service of one connection.
#[derive(Clone)]
pub(in crate::server) struct Counted<S> {
    inner: S,
    unread: Unread,
}

impl<S, B, R> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<CountedBody<R>>;
    type Error = S::Error;
    type Future = Answered<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let unread = (!Method::of(request.uri().path()).is_stream()).then(|| self.unread.clone());
        Answered { call: self.inner.call(request), unread }
    }
}

pin_project! {
    /// A call.
    pub(in crate::server) struct Answered<F> {
        #[pin]
        call: F,
        // `None` if the response is a stream.
        unread: Option<Unread>,
    }
}

impl<F, B, E> Future for Answered<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<CountedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.call.poll(context));
        let begun = this.unread.take().map(Unread::begun);
        Poll::Ready(answer.map(|response| response.map(|body| CountedBody { body, _begun: begun })))
    }
}

pin_project! {
    /// A response body. hyper drops it when the client has room for all of it.
    pub(in crate::server) struct CountedBody<B> {
        #[pin]
        body: B,
        _begun: Option<Begun>,
    }
}

impl<B: HttpBody<Data = Bytes, Error = Status>> HttpBody for CountedBody<B> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.project().body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
