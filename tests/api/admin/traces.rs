//! Traces of real server processes, as a collector decodes them.

use crate::{
    binary::{Server, await_that},
    http::get,
    metrics::sum,
    redis_server::Redis,
    scrape::scrape,
    start,
    support::{acquire_request, channel},
};
use fencepost_proto::v1::{ReleaseRequest, lock_service_client::LockServiceClient};
use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{ResourceSpans, Span, span::SpanKind},
};
use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A collector that keeps what it gets.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ResourceSpans>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().extend(request.into_inner().resource_spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// A collector, and its endpoint.
    async fn start() -> (Self, String) {
        let (collector, listener) = (Self::default(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let service = TraceServiceServer::new(collector.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, endpoint)
    }

    fn spans(&self) -> Vec<Span> {
        let resources = self.0.lock().unwrap();
        resources.iter().flat_map(|it| &it.scope_spans).flat_map(|it| &it.spans).cloned().collect()
    }

    /// The only span with this name.
    fn span(&self, name: &str) -> Span {
        let mut spans = self.spans();
        spans.retain(|span| span.name == name);
        assert_eq!(spans.len(), 1, "{name}: {:#?}", self.spans());
        spans.remove(0)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(attributes: &[KeyValue], key: &str) -> Option<Value> {
    attributes.iter().find(|it| it.key == key)?.value.clone()?.value
}

fn text(value: &str) -> Option<Value> {
    Some(Value::StringValue(value.to_owned()))
}

/// Drains the server. It exports its spans before it ends.
async fn drain(server: Server) {
    let ended = tokio::task::spawn_blocking(move || {
        server.process.signal(Signal::SIGTERM);
        server.process.ended().expect(0);
    });
    ended.await.unwrap();
}

fn ready(admin: &str) {
    await_that("readiness", || get(admin, "/readyz").status == 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_traced_from_its_caller_to_its_operation() {
    let (collector, endpoint) = Collector::start().await;
    let redis = Redis::start(&[]);
    let (server, admin) = start(&["--store", &redis.url(), "--otlp-endpoint", &endpoint]);
    ready(&admin);
    let mut client = LockServiceClient::new(channel(server.url.trim_start_matches("http://").parse().unwrap()));
    let mut request = Request::new(acquire_request("orders/42", Duration::from_secs(60)));
    request.metadata_mut().insert("traceparent", format!("00-{TRACE}-{PARENT}-01").parse().unwrap());
    let lease = client.acquire(request).await.unwrap().into_inner().lease.unwrap();
    let release = ReleaseRequest { lock_name: lease.lock_name, lease_id: String::new() };
    client.release(release).await.unwrap_err();
    drain(server).await;

    let call = collector.span("fencepost.v1.LockService/Acquire");
    assert_eq!((hex(&call.trace_id).as_str(), hex(&call.parent_span_id).as_str()), (TRACE, PARENT));
    assert_eq!(call.kind(), SpanKind::Server);
    assert_eq!(attribute(&call.attributes, "rpc.service"), text("fencepost.v1.LockService"));
    assert_eq!(attribute(&call.attributes, "rpc.method"), text("Acquire"));
    assert_eq!(attribute(&call.attributes, "rpc.grpc.status_code"), Some(Value::IntValue(0)));
    let operation = collector.span("acquire");
    assert_eq!((&operation.trace_id, &operation.parent_span_id), (&call.trace_id, &call.span_id));
    assert_eq!(attribute(&operation.attributes, "fencepost.lock_name"), text("orders/42"));

    let refused = collector.span("fencepost.v1.LockService/Release");
    assert_ne!(hex(&refused.trace_id), TRACE, "a call without a traceparent begins a trace");
    assert_eq!(attribute(&refused.attributes, "rpc.grpc.status_code"), Some(Value::IntValue(3)));
    let everything = format!("{:?}", collector.0.lock().unwrap());
    assert!(!everything.contains(&lease.lease_id), "a lease id is a secret");
    let resource = collector.0.lock().unwrap()[0].resource.clone().unwrap().attributes;
    assert_eq!(attribute(&resource, "service.name"), text("fencepost"));
    assert_eq!(attribute(&resource, "service.version"), text(env!("CARGO_PKG_VERSION")));
    assert!(attribute(&resource, "service.instance.id").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_of_a_session_has_a_span() {
    let (collector, endpoint) = Collector::start().await;
    let (server, _admin) = start(&["--otlp-endpoint", &endpoint]);
    server.run(&["run", "orders/43", "--", "true"]).expect(0);
    drain(server).await;
    let session = collector.span("fencepost.v1.LockService/Session");
    for name in ["acquire", "release"] {
        let operation = collector.span(name);
        assert_eq!((&operation.trace_id, &operation.parent_span_id), (&session.trace_id, &session.span_id), "{name}");
        assert_eq!(attribute(&operation.attributes, "fencepost.lock_name"), text("orders/43"));
    }
}

/// No answer reaches the client, so its span blames nobody else for the end of the call.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_its_client_resets_is_not_an_error_of_the_server() {
    let (collector, endpoint) = Collector::start().await;
    let (server, admin) = start(&["--otlp-endpoint", &endpoint]);
    let stream = TcpStream::connect(server.url.trim_start_matches("http://")).await.unwrap();
    let (mut calls, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let get = http::Request::post(format!("{}/fencepost.v1.LockService/Get", server.url));
    let get = get.header("content-type", "application/grpc").header("te", "trailers").body(()).unwrap();
    let (_response, mut message): (_, h2::SendStream<bytes::Bytes>) = calls.send_request(get, false).unwrap();
    message.send_reset(h2::Reason::CANCEL);
    let ended = [("method", "Get"), ("code", "CANCELLED")];
    await_that("the end of the call", || sum(&scrape(&admin), "fencepost_calls_total", &ended) == 1.0);
    drop(calls);
    drain(server).await;
    let status = attribute(&collector.span("fencepost.v1.LockService/Get").attributes, "rpc.grpc.status_code");
    // None if the call was dropped before it noticed.
    assert!(matches!(status, None | Some(Value::IntValue(1))), "{status:?}");
}

/// The collector decides nothing: locks are served, and the server ends in time.
#[test]
fn a_collector_that_is_away_costs_a_counter() {
    let endpoint = format!("http://127.0.0.1:{}", Redis::free_port());
    let flags = ["--admin-listen", "127.0.0.1:0", "--otlp-endpoint", &endpoint];
    let server = Server::start_in(&flags, &[("OTEL_BSP_SCHEDULE_DELAY", Path::new("50"))]);
    let admin = server.admin_address();
    server.run(&["acquire", "a"]).expect(0);
    let lost = "fencepost_trace_spans_lost_total";
    await_that("failed exports", || {
        let families = scrape(&admin);
        sum(&families, "fencepost_trace_export_failures_total", &[]) >= 1.0
            && sum(&families, lost, &[("reason", "export_failed")]) >= 1.0
    });
    server.run(&["acquire", "b"]).expect(0);
    let families = scrape(&admin);
    assert_eq!(sum(&families, lost, &[("reason", "queue_full")]), 0.0);
    assert_eq!(warnings(&server, "--otlp-endpoint"), 1, "{}", server.log());
    server.process.signal(Signal::SIGTERM);
    server.process.ended().expect(0);
}

/// How often the log warns of lost spans in these words.
fn warnings(server: &Server, words: &str) -> usize {
    let log = server.log();
    log.lines()
        .filter(|line| line.contains("\"WARN\"") && line.contains("spans are lost") && line.contains(words))
        .count()
}

/// The collector accepts connections and never answers.
#[test]
fn spans_beyond_the_queue_are_counted_and_the_log_says_so_once() {
    let collector = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let flags = ["--admin-listen", "127.0.0.1:0", "--otlp-endpoint", &endpoint];
    let sdk = [("OTEL_BSP_MAX_QUEUE_SIZE", Path::new("2")), ("OTEL_BSP_SCHEDULE_DELAY", Path::new("60000"))];
    let server = Server::start_in(&flags, &sdk);
    let admin = server.admin_address();
    let full = || sum(&scrape(&admin), "fencepost_trace_spans_lost_total", &[("reason", "queue_full")]);
    await_that("lost spans", || {
        // Two spans, which fit as long as no export is under way.
        server.run(&["get", "a"]).expect(0);
        full() >= 2.0
    });
    assert_eq!(warnings(&server, "OTEL_BSP_MAX_QUEUE_SIZE"), 1, "{}", server.log());
    drop(collector);
}
