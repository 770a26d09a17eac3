//! Traces, exported by OTLP. Off unless an endpoint is configured; then no span is made anywhere.
//!
//! A span is a [`Context`] of OpenTelemetry that has ended when its last clone is dropped. While its future or stream
//! is polled, it is the present one of the thread, from which the spans below find their parent.

use super::{export::Queue, metrics::TraceMetrics};
use opentelemetry::{
    Context, KeyValue,
    propagation::{Extractor, TextMapPropagator},
    trace::{SpanKind, Status, TraceContextExt, Tracer, TracerProvider},
};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{SdkTracer, SdkTracerProvider},
};
use pin_project_lite::pin_project;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::Duration,
};

/// How long the collector may take for a batch of spans.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the end of the server waits for the last spans.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Makes spans, if traces are on.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<Arc<Active>>);

#[derive(Debug)]
struct Active {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    callers: TraceContextPropagator,
}

/// The server that spans come from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The name of the program.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Tells this process from others.
    pub instance: &'a str,
}

impl Traces {
    /// Exports to the OTLP endpoint of a collector. Lost spans are counted. Needs a running tokio runtime.
    pub fn export(endpoint: &str, source: Source<'_>, metrics: Arc<TraceMetrics>) -> Result<Self, ExporterBuildError> {
        let exporter =
            SpanExporter::builder().with_tonic().with_endpoint(endpoint).with_timeout(EXPORT_TIMEOUT).build()?;
        let attributes = [
            KeyValue::new("service.version", source.version),
            KeyValue::new("service.instance.id", source.instance.to_owned()),
        ];
        let resource = Resource::builder().with_service_name(source.name).with_attributes(attributes).build();
        let queue = Queue::before(exporter, metrics);
        let provider = SdkTracerProvider::builder().with_span_processor(queue).with_resource(resource).build();
        let tracer = provider.tracer(source.name);
        Ok(Self(Some(Arc::new(Active { provider, tracer, callers: TraceContextPropagator::new() }))))
    }

    /// Begins the span of a call, `/package.Service/Method`. Its parent is what the caller's headers name.
    pub fn call(&self, path: &str, headers: &dyn Extractor) -> Option<Context> {
        let Active { tracer, callers, .. } = self.0.as_deref()?;
        let parent = callers.extract_with_context(&Context::new(), headers);
        let path = path.trim_start_matches('/');
        let mut attributes = vec![KeyValue::new("rpc.system", "grpc")];
        if let Some((service, method)) = path.split_once('/') {
            attributes.push(KeyValue::new("rpc.service", service.to_owned()));
            attributes.push(KeyValue::new("rpc.method", method.to_owned()));
        }
        let span = tracer.span_builder(path.to_owned()).with_kind(SpanKind::Server).with_attributes(attributes);
        let span = tracer.build_with_context(span, &parent);
        Some(parent.with_span(span))
    }

    /// Begins the span of an operation on a lock, below the present span.
    pub fn operation(&self, name: &'static str, lock: Option<&str>) -> Option<Context> {
        let Active { tracer, .. } = self.0.as_deref()?;
        let attributes = lock.map(|lock| KeyValue::new("fencepost.lock_name", lock.to_owned()));
        let span = tracer.span_builder(name).with_attributes(attributes);
        let parent = Context::current();
        let span = tracer.build_with_context(span, &parent);
        Some(parent.with_span(span))
    }

    /// Exports the remaining spans, within a bounded time, and turns traces off.
    pub async fn flush(&self) {
        let Some(active) = self.0.clone() else { return };
        // It blocks. If the collector is away, the last spans are lost.
        let flushed = tokio::task::spawn_blocking(move || active.provider.shutdown_with_timeout(FLUSH_TIMEOUT));
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, flushed).await;
    }
}

/// Marks a span as failed. Error texts may have more than a trace should show, so the span has only the kind.
pub fn failed(span: Option<&Context>, kind: &'static str) {
    if let Some(span) = span {
        span.span().set_status(Status::error(kind));
    }
}

pin_project! {
    /// A future whose span, if it has one, is the present one while it is polled.
    pub struct Spanned<F> {
        span: Option<Context>,
        #[pin]
        work: F,
    }
}

impl<F> Spanned<F> {
    /// The work of a span.
    pub fn new(span: Option<Context>, work: F) -> Self {
        Self { span, work }
    }
}

impl<F: Future> Future for Spanned<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _present = this.span.clone().map(Context::attach);
        this.work.poll(context)
    }
}
