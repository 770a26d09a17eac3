//! How a connection to a server is made.

use crate::address::ServerAddress;
use crate::greeting::{Greeting, Listened};
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

/// How long to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How often to ask the other end of a quiet connection whether it is still there, and how long to wait for its answer.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings that every connection gets, unless the caller hands in an endpoint of its own.
pub(crate) fn endpoint(address: &ServerAddress) -> Result<Endpoint, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(address.url())?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true))
}

/// A channel that connects when it is first used, and listens to how the server greets it.
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
    type Response = TokioIo<Listened>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, greeting) = (self.tcp.call(uri), self.greeting.clone());
        // Dropped, it gives the connection up.
        Box::pin(async move { Ok(TokioIo::new(Listened::new(connecting.await?.into_inner(), greeting))) })
    }
}
