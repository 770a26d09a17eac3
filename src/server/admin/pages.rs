//! The pages of the admin port, as plain text.

use super::{
    Build,
    hosts::{Hosts, only_known},
};
use crate::{
    server::health::Readiness,
    telemetry::metrics::{self, Metrics},
};
use axum::{
    Router,
    body::Body,
    extract::State,
    http::{Request, Response, StatusCode, Version, header::CONTENT_TYPE},
    middleware::from_fn_with_state,
    response::IntoResponse,
    routing::get,
};
use std::{convert::Infallible, sync::Arc};
use tokio::{sync::watch, time::Instant};
use tonic::body::Body as GrpcBody;
use tower::Service;

const LIST: &str = "/metrics  metrics, as OpenMetrics text
/livez    200 while the process runs
/readyz   200 while the server is ready for calls, else 503
";

/// What the pages show.
pub(in crate::server) struct Pages {
    build: Build,
    started: Instant,
    metrics: Arc<Metrics>,
    refresh: Box<dyn Fn() + Send + Sync>,
    readiness: watch::Receiver<Readiness>,
}

impl Pages {
    /// The pages of a server that starts now. `refresh` sets metrics that are read from the state of the server.
    pub(in crate::server) fn new(
        build: Build,
        metrics: Arc<Metrics>,
        refresh: impl Fn() + Send + Sync + 'static,
        readiness: watch::Receiver<Readiness>,
    ) -> Self {
        Self { build, started: Instant::now(), metrics, refresh: Box::new(refresh), readiness }
    }

    /// The pages, and the gRPC services of `grpc` on the other paths, for requests for these hosts.
    ///
    /// gRPC needs HTTP/2, as on the main port. Over HTTP/1.1 any web page that the operator's browser shows could post
    /// a Drain to the loopback address.
    pub(in crate::server) fn router<S>(self, grpc: S, hosts: Hosts) -> Router
    where
        S: Service<Request<GrpcBody>, Response = Response<GrpcBody>, Error = Infallible>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send,
    {
        let other = move |request: Request<Body>| {
            let mut grpc = grpc.clone();
            async move {
                if request.version() != Version::HTTP_2 {
                    return (StatusCode::NOT_FOUND, format!("no such page; there are:\n{LIST}")).into_response();
                }
                match grpc.call(request.map(GrpcBody::new)).await {
                    Ok(response) => response.map(Body::new),
                    Err(never) => match never {},
                }
            }
        };
        Router::new()
            .route("/", get(index))
            .route("/metrics", get(scrape))
            .route("/livez", get(async || "ok\n"))
            .route("/readyz", get(ready))
            .fallback(other)
            .layer(from_fn_with_state(hosts, only_known))
            .with_state(Arc::new(self))
    }
}

async fn index(State(pages): State<Arc<Pages>>) -> String {
    let facts = pages.build.facts().into_iter().map(|(name, value)| format!("{name:9} {value}\n"));
    let seconds = std::time::Duration::from_secs(pages.started.elapsed().as_secs());
    let uptime = humantime::format_duration(seconds);
    let ready = *pages.readiness.borrow();
    format!("fencepost\n\n{}uptime    {uptime}\nstate     {ready}\n\n{LIST}", facts.collect::<String>())
}

async fn scrape(State(pages): State<Arc<Pages>>) -> Response<Body> {
    (pages.refresh)();
    match pages.metrics.encode() {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        // Only a formatter that fails can cause this.
        Err(error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write the metrics: {error}\n")).into_response()
        }
    }
}

async fn ready(State(pages): State<Arc<Pages>>) -> Response<Body> {
    let readiness = *pages.readiness.borrow();
    let status = if readiness == Readiness::Ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, format!("{readiness}\n")).into_response()
}
