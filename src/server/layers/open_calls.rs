//! Bounds the open calls of a connection and of the server, each of which costs up to 9 KB of memory: also those whose
//! message has not arrived, and streams on which nothing happens.
//!
//! A refusal rather than a lower bound of HTTP/2 on the streams of a connection: a client obeys the latter by keeping
//! further calls back, and the release behind which a lock is waited for must not wait itself. So calls that may last
//! leave room for those that end by themselves.

use crate::{
    api::{self, peer::Peer},
    config::Config,
    server::refusals::Refusals,
    telemetry::metrics::{Bound, Method},
};
use futures_util::future::{self, Either, Ready};
use hyper::{
    Request, Response,
    body::{Body as HttpBody, Bytes, Frame, SizeHint},
};
use pin_project_lite::pin_project;
use prometheus_client::metrics::gauge::Gauge;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tonic::{Status, body::Body};
use tower::Service;

/// Open calls of one connection that may last: streams, and acquires, which may wait. As many as operations may be in
/// flight on one session.
const LASTING_PER_CONNECTION: u32 = 16_384;
/// Open calls beyond those that may last: on a connection, and on the server.
const SPARE: u32 = 1_024;

/// Open List calls of the server. A page has up to 1 MiB, which waits in memory until the client has read it, and takes
/// milliseconds to collect, which delay the beats of streams.
const LISTS_MAX: usize = 32;

/// The most streams of HTTP/2 on a connection. Only a client that breaks the protocol opens more.
pub(in crate::server) const STREAMS_MAX: u32 = LASTING_PER_CONNECTION + SPARE;

/// The open calls of the server.
#[derive(Clone, Debug)]
pub(in crate::server) struct OpenCalls {
    server: Count,
    lists: Count,
    health_watches: Count,
    refusals: Arc<Refusals>,
}

impl OpenCalls {
    /// With room for the calls that may wait, and a stream on each connection.
    pub(in crate::server) fn new(config: &Config, open: Gauge, refusals: Arc<Refusals>) -> Self {
        let spare = SPARE as usize;
        let lasting_max = config.limits.waiters_per_server.saturating_add(config.connections_max).saturating_add(spare);
        let server = Count { open, lasting_max, spare, bound: Bound::Calls, what: "calls are open on this server" };
        let lists = Count {
            open: Gauge::default(),
            lasting_max: LISTS_MAX,
            spare: 0,
            bound: Bound::Lists,
            what: "calls of List are open on this server",
        };
        // One for each connection, as clients of gRPC open it. They need no credentials, so they must not fill the
        // calls of those who have some.
        let health_watches = Count {
            open: Gauge::default(),
            lasting_max: config.connections_max,
            spare: 0,
            bound: Bound::HealthWatches,
            what: "health watches are open on this server",
        };
        Self { server, lists, health_watches, refusals }
    }

    /// The same service, for one connection.
    pub(in crate::server) fn bound<S>(&self, inner: S) -> Bounded<S> {
        let connection = Count {
            open: Gauge::default(),
            lasting_max: LASTING_PER_CONNECTION as usize,
            spare: SPARE as usize,
            bound: Bound::CallsPerConnection,
            what: "calls are open on this connection",
        };
        let counts = Arc::new([connection, self.server.clone(), self.lists.clone(), self.health_watches.clone()]);
        Bounded { inner, counts, refusals: self.refusals.clone() }
    }
}

/// Open calls of a connection, or of the server.
#[derive(Debug, Clone)]
struct Count {
    open: Gauge,
    /// The most open calls when one begins that may last.
    lasting_max: usize,
    /// Room beyond it for those that end by themselves.
    spare: usize,
    bound: Bound,
    what: &'static str,
}

/// The counts of one connection: its calls, those of the server, and those of List and of the health watches, of which
/// only such a call is part.
type Counts = [Count; 4];

/// Which of the counts a call of this method is part of.
fn parts_of(method: Method) -> &'static [usize] {
    match method {
        Method::List => &[0, 1, 2],
        Method::HealthWatch => &[0, 1, 3],
        _ => &[0, 1],
    }
}

/// A call that is counted. Dropped, it has ended.
struct OpenCall {
    counts: Arc<Counts>,
    /// Those that it is part of.
    counted: &'static [usize],
}

impl OpenCall {
    /// Counts a call of this method, or returns the bound that is reached, and the most calls that it allows.
    fn begin(counts: &Arc<Counts>, method: Method) -> Result<Self, (&Count, usize)> {
        let lasts = method.is_stream() || method == Method::Acquire;
        let parts = parts_of(method);
        let mut call = Self { counts: counts.clone(), counted: &[] };
        for (place, part) in parts.iter().enumerate() {
            let count = &counts[*part];
            let max = if lasts { count.lasting_max } else { count.lasting_max.saturating_add(count.spare) };
            let before = count.open.inc();
            call.counted = &parts[..=place];
            if usize::try_from(before).is_ok_and(|before| before >= max) {
                return Err((count, max));
            }
        }
        Ok(call)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        for part in self.counted {
            self.counts[*part].open.dec();
        }
    }
}

/// The service of one connection.
#[derive(Clone)]
pub(in crate::server) struct Bounded<S> {
    inner: S,
    counts: Arc<Counts>,
    refusals: Arc<Refusals>,
}

impl<S> Bounded<S> {
    /// Counts this call, or says why there is no room for it.
    fn begin<B>(&self, request: &Request<B>) -> Result<OpenCall, Status> {
        OpenCall::begin(&self.counts, Method::of(request.uri().path())).map_err(|(count, max)| {
            self.refusals.count(count.bound, Peer::of(request.extensions()));
            api::too_many_calls(count.what, max)
        })
    }
}

impl<S, B> Service<Request<B>> for Bounded<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<CallBody>;
    type Error = S::Error;
    type Future = Either<BoundedCall<S::Future>, Ready<Result<Response<CallBody>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.begin(&request) {
            Ok(open) => Either::Left(BoundedCall { call: self.inner.call(request), open: Some(open) }),
            Err(refused) => {
                let answer = refused.into_http::<Body>();
                Either::Right(future::ready(Ok(answer.map(|body| CallBody { body, _open: None }))))
            }
        }
    }
}

pin_project! {
    /// A call.
    pub(in crate::server) struct BoundedCall<F> {
        #[pin]
        call: F,
        open: Option<OpenCall>,
    }
}

impl<F, E> Future for BoundedCall<F>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    type Output = Result<Response<CallBody>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (answer, open) = (ready!(this.call.poll(context)), this.open.take());
        Poll::Ready(answer.map(|response| response.map(|body| CallBody { body, _open: open })))
    }
}

pin_project! {
    /// The response body of a call. hyper drops it when the call has ended.
    pub(in crate::server) struct CallBody {
        #[pin]
        body: Body,
        _open: Option<OpenCall>,
    }
}

impl HttpBody for CallBody {
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
