//! The handshake of a connection: TLS, if it is on, and the preface of HTTP/2.

use super::{
    connection::Transport,
    preface::{self, Protocol},
};
use crate::{
    server::listen::Accepted,
    telemetry::metrics::{ConnectionMetrics, TlsHandshake},
};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{AlertDescription, CertificateError, Error as TlsError, ServerConfig},
};

/// The most bytes that are read, and the longest time, until a refused client closes its side.
const DISCARDED_BYTES_MAX: u64 = 64 * 1_024;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a connection does not become one of HTTP/2.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The client closed the connection before it sent anything. Load balancers do that to see whether a port is open.
    #[error("the client closed the connection")]
    Closed,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The handshake of TLS failed.
    #[error("{0}")]
    Tls(String),
    /// The client speaks another protocol.
    #[error("{0}")]
    Protocol(String),
}

/// Carries out the handshake. Without a bound on its time: the caller has one.
pub(super) async fn handshake(
    accepted: Accepted,
    tls: Option<Arc<ServerConfig>>,
    metrics: &ConnectionMetrics,
) -> Result<Transport, Failure> {
    match (accepted, tls) {
        (Accepted::Tcp(stream, _), Some(config)) => {
            let accepting = TlsAcceptor::from(config).accept(expect_tls(stream).await?);
            let mut stream = match accepting.into_fallible().await {
                Ok(stream) => Box::new(stream),
                Err((error, mut stream)) => {
                    metrics.tls_handshakes.of(TlsHandshake::Failed).inc();
                    close(&mut stream).await;
                    return Err(tls_failure(error));
                }
            };
            metrics.tls_handshakes.of(TlsHandshake::Ok).inc();
            expect_preface(&mut stream, true).await?;
            Ok(Transport::Tls(stream))
        }
        (Accepted::Tcp(mut stream, _), None) => {
            expect_preface(&mut stream, false).await?;
            Ok(Transport::Tcp(stream))
        }
        (Accepted::Unix(mut stream), _) => {
            expect_preface(&mut stream, false).await?;
            Ok(Transport::Unix(stream))
        }
    }
}

/// Looks at the first bytes without reading them.
async fn expect_tls(mut stream: TcpStream) -> Result<TcpStream, Failure> {
    let mut first = [0; preface::PREFACE.len()];
    let length = stream.peek(&mut first).await?;
    if length == 0 {
        return Err(Failure::Closed);
    }
    match Protocol::of(&first[..length]) {
        Protocol::Tls => Ok(stream),
        protocol => {
            answer(&mut stream, protocol, true).await?;
            Err(wrong_protocol(protocol, true))
        }
    }
}

async fn expect_preface(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), tls: bool) -> Result<(), Failure> {
    match preface::read(stream).await? {
        Ok(()) => Ok(()),
        Err(None) => Err(Failure::Closed),
        Err(Some(protocol)) => {
            answer(stream, protocol, tls).await?;
            Err(wrong_protocol(protocol, tls))
        }
    }
}

/// What this port speaks.
fn expected(tls: bool) -> &'static str {
    if tls { "HTTP/2 over TLS" } else { "HTTP/2 without TLS" }
}

fn wrong_protocol(found: Protocol, tls: bool) -> Failure {
    Failure::Protocol(format!("the client speaks {found}, but this port speaks gRPC ({})", expected(tls)))
}

/// Tells a client of HTTP/1, such as a browser or a health check, what the port is.
async fn answer(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    protocol: Protocol,
    tls: bool,
) -> Result<(), Failure> {
    if protocol != Protocol::Http1 {
        return Ok(());
    }
    let text = format!("This port of Fencepost speaks gRPC ({}). Use a gRPC client.\n", expected(tls));
    let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n";
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes()).await?;
    close(stream).await;
    Ok(())
}

/// Closes a refused connection so that the client gets what was sent last: an answer, or the alert of TLS. Closing a
/// socket with unread bytes sends a reset, which may overtake that.
async fn close(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let closing = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(DISCARDED_BYTES_MAX), &mut tokio::io::sink()).await
    };
    // The connection is refused, whether or not the client takes part in closing it.
    let _ = timeout(CLOSE_TIMEOUT, closing).await;
}

fn tls_failure(error: io::Error) -> Failure {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) {
        Some(inner) => Failure::Tls(format!("TLS: {inner}{}", hint(inner))),
        None if error.kind() == io::ErrorKind::UnexpectedEof => Failure::Closed,
        None => Failure::Io(error),
    }
}

/// What to do about the failures that operators meet.
fn hint(error: &TlsError) -> &'static str {
    match error {
        TlsError::NoCertificatesPresented => " (tls_client_ca is set: the client needs a certificate)",
        TlsError::InvalidCertificate(CertificateError::UnknownIssuer) => {
            " (no authority of tls_client_ca has signed the client's certificate)"
        }
        TlsError::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            " (renew the client's certificate)"
        }
        TlsError::AlertReceived(
            AlertDescription::UnknownCA | AlertDescription::BadCertificate | AlertDescription::CertificateUnknown,
        ) => " (the client does not trust the server's certificate: give it the authority that signed it)",
        TlsError::AlertReceived(AlertDescription::CertificateExpired) => " (renew the server's certificate)",
        _ => "",
    }
}
