//! Connecting to a server.

use crate::address::ServerAddress;
use crate::error::CallError;
use crate::facts;
use crate::greeting::Greeting;
use crate::tls::{self, Broken, Tls, TlsFailure, TlsFileError};
use crate::transport::{InspectedStream, LocalStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_util::either::Either;
use tonic::Status;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

/// Connection timeout, with the TLS handshake.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_millis(facts::CONNECT_TIMEOUT_MS);

/// The interval of pings on an idle connection, and the timeout for their answer.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

type BoxError = Box<dyn Error + Send + Sync>;

/// The default settings of connections. An endpoint passed in by the caller has its own. The timeout for connecting is
/// that of the [`Connector`].
pub(crate) fn endpoint(address: &ServerAddress) -> Result<Endpoint, tonic::transport::Error> {
    // The scheme of the endpoint's address is http, because tonic knows nothing of this TLS. That of requests is right.
    let authority = address.authority();
    let mut endpoint = Endpoint::from_shared(format!("http://{authority}"))?;
    if address.is_tls()
        && let Ok(origin) = format!("https://{authority}").parse()
    {
        endpoint = endpoint.origin(origin);
    }
    Ok(endpoint.http2_keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT).keep_alive_while_idle(true))
}

/// Connects to a server. Dropped, it abandons the connection attempt.
pub(crate) async fn connect(address: &ServerAddress, tls: &Tls) -> Result<Channel, CallError> {
    let greeting = Arc::<Greeting>::default();
    let connector = Connector::new(address, &Arc::new(tls.clone()), greeting.clone());
    let connector = connector.map_err(|error| CallError::unsent(Status::invalid_argument(error.to_string())))?;
    let failed = |error| CallError::new(Status::from_error(Box::new(error))).with_greeting(address, &greeting);
    endpoint(address).map_err(failed)?.connect_with_connector(connector).await.map_err(failed)
}

/// Connects to one server, and checks how it greets.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    way: Way,
    greeting: Arc<Greeting>,
    /// Whether the newest connection has received the greeting of a server.
    greeted: Arc<AtomicBool>,
}

/// How to reach the server.
#[derive(Clone, Debug)]
enum Way {
    Tcp(HttpConnector),
    Tls { tcp: HttpConnector, name: ServerName<'static>, tls: Arc<Tls> },
    Unix(PathBuf),
}

impl Connector {
    /// Reads no file, except the name of the server.
    pub(crate) fn new(address: &ServerAddress, tls: &Arc<Tls>, greeting: Arc<Greeting>) -> Result<Self, TlsFileError> {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let way = match address.unix_path() {
            Some(path) => Way::Unix(path.to_owned()),
            None if address.is_tls() => Way::Tls { tcp, name: tls.name_of(address)?, tls: tls.clone() },
            None => Way::Tcp(tcp),
        };
        Ok(Self { way, greeting, greeted: Arc::default() })
    }

    /// The same for another channel, which reports here whether its newest connection was greeted.
    pub(crate) fn reporting(&self, greeted: Arc<AtomicBool>) -> Self {
        Self { greeted, ..self.clone() }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<InspectedStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        match &mut self.way {
            Way::Tcp(tcp) | Way::Tls { tcp, .. } => tcp.poll_ready(cx).map_err(Into::into),
            Way::Unix(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        // Dropped, it abandons the connection attempt.
        let (connector, until) = (self.clone(), Instant::now() + CONNECT_TIMEOUT);
        Box::pin(async move { connector.connect(uri, until).await.map(TokioIo::new) })
    }
}

impl Connector {
    async fn connect(self, uri: Uri, until: Instant) -> Result<InspectedStream, BoxError> {
        let (greeting, greeted, mut identity) = (self.greeting, self.greeted, None);
        greeted.store(false, Ordering::Relaxed);
        let unreachable = |error: BoxError| {
            greeting.unreachable();
            error
        };
        let stream = match self.way {
            Way::Tcp(tcp) => Either::Left(dial(tcp, uri, until).await.map_err(unreachable)?),
            Way::Unix(path) => Either::Right(Either::Left(dial_unix(&path).await.map_err(unreachable)?)),
            Way::Tls { tcp, name, tls } => {
                let stream = dial(tcp, uri, until).await.map_err(unreachable)?;
                greeting.connected();
                let failed = |broken: Broken| {
                    let text = broken.failure.to_string();
                    greeting.tls_failed(broken);
                    BoxError::from(text)
                };
                let certain = |failure| Broken { failure, is_certain: true };
                // Reads files, in a thread that may block. Fails if the runtime is shutting down.
                let loaded = tokio::task::spawn_blocking(move || tls.load()).await?;
                let loaded = loaded.map_err(|error| failed(certain(TlsFailure::Files(error.to_string()))))?;
                let shaking = TlsConnector::from(loaded.config).connect(name, stream);
                let stream = match timeout_at(until, shaking).await {
                    Ok(Ok(stream)) => stream,
                    Ok(Err(error)) => return Err(failed(tls::explain(&error, loaded.identity.shown()))),
                    Err(_) => {
                        let why = format!("no answer within {CONNECT_TIMEOUT:?}");
                        return Err(failed(certain(TlsFailure::Other(why))));
                    }
                };
                identity = Some(loaded.identity);
                Either::Right(Either::Right(stream))
            }
        };
        Ok(InspectedStream::new(stream, greeting, identity).reporting(greeted))
    }
}

async fn dial(mut tcp: HttpConnector, uri: Uri, until: Instant) -> Result<TcpStream, BoxError> {
    match timeout_at(until, tcp.call(uri)).await {
        Ok(connected) => Ok(connected?.into_inner()),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time").into()),
    }
}

#[cfg(unix)]
async fn dial_unix(path: &Path) -> Result<LocalStream, BoxError> {
    Ok(LocalStream::connect(path).await?)
}

#[cfg(not(unix))]
async fn dial_unix(path: &Path) -> Result<LocalStream, BoxError> {
    Err(format!("this system has no Unix sockets: {}", path.display()).into())
}
