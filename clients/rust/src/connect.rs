//! Connecting to a server.

use crate::address::ServerAddress;
use crate::greeting::{Greeting, InspectedStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

/// Connection timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval of pings on an idle connection, and the timeout for their answer.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// The default settings of connections. An endpoint passed in by the caller has its own.
pub(crate) fn endpoint(address: &ServerAddress) -> Result<Endpoint, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(address.url())?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true))
}

/// A channel that connects on first use and checks how the server greets it.
pub(crate) fn channel(endpoint: &Endpoint, greeting: Arc<Greeting>) -> Channel {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    endpoint.connect_with_connector_lazy(Connector { tcp, greeting })
}

#[derive(Clone, Debug)]
struct Connector {
    tcp: HttpConnector,
    greeting: Arc<Greeting>,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<InspectedStream>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, greeting) = (self.tcp.call(uri), self.greeting.clone());
        // Dropped, it abandons the connection attempt.
        Box::pin(async move { Ok(TokioIo::new(InspectedStream::new(connecting.await?.into_inner(), greeting))) })
    }
}
