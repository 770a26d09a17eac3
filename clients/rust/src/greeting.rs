//! What connections to a server show first: whether it can be called over gRPC.
//!
//! tonic's errors hardly distinguish a server that does not speak gRPC, or that refuses TLS, from a connection that
//! broke later. So the evidence is collected here, from the first bytes of each connection
//! ([`transport`](crate::transport)).

use crate::facts;
use crate::tls::{Broken, TlsFailure};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The start of a TLS alert record, with which a TLS server refuses plain text.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];
/// The most bytes that an error message shows of a foreign protocol.
pub(crate) const SHOWN_MAX: usize = 60;

/// What connections to one server have shown so far.
#[derive(Debug, Default)]
pub(crate) struct Greeting(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    first_bytes: FirstBytes,
    /// Whether a server at this address has ever spoken HTTP/2.
    spoke: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum FirstBytes {
    /// No connection yet.
    #[default]
    NotConnected,
    /// A connection was established, and nothing has arrived.
    Nothing,
    /// A connection was closed before anything arrived.
    Closed {
        /// Whether it was a TCP connection without TLS.
        is_plain: bool,
    },
    Http2,
    /// The first bytes of another protocol.
    Other(Vec<u8>),
    /// TLS failed.
    Tls(Broken),
}

/// The evidence that a server cannot be called over gRPC.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) why: Why,
    /// Whether it may be a gRPC server that hangs or stops, and has read the request.
    pub(crate) maybe_sent: bool,
    /// Whether no other reason is possible.
    pub(crate) is_certain: bool,
}

/// What is wrong with the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It does not speak gRPC. Completes a sentence that starts with the server's address.
    NotGrpc(String),
    /// TLS failed.
    Tls(TlsFailure),
}

impl Greeting {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No connection could be established. An earlier failure of TLS no longer explains the errors.
    pub(crate) fn unreachable(&self) {
        let mut seen = self.seen();
        if matches!(seen.first_bytes, FirstBytes::Tls(_)) {
            seen.first_bytes = FirstBytes::NotConnected;
        }
    }

    /// A connection was established. Earlier evidence stays until something else arrives.
    pub(crate) fn connected(&self) {
        let mut seen = self.seen();
        if seen.first_bytes == FirstBytes::NotConnected {
            seen.first_bytes = FirstBytes::Nothing;
        }
    }

    /// A connection was closed before its greeting. A server that spoke HTTP/2 before is now stopping or hanging.
    pub(crate) fn closed(&self, is_plain: bool) {
        let mut seen = self.seen();
        if seen.first_bytes != FirstBytes::Http2 {
            seen.first_bytes = FirstBytes::Closed { is_plain };
        }
    }

    /// TLS failed, in the handshake or before the server sent anything over it.
    pub(crate) fn tls_failed(&self, broken: Broken) {
        let mut seen = self.seen();
        // A connection that only broke does not refute what another one has shown.
        if broken.is_certain || !matches!(&seen.first_bytes, FirstBytes::Tls(known) if known.is_certain) {
            seen.first_bytes = FirstBytes::Tls(broken);
        }
    }

    /// The connection begins as HTTP/2 does.
    pub(crate) fn spoke_http2(&self) {
        *self.seen() = Seen { first_bytes: FirstBytes::Http2, spoke: true };
    }

    /// The connection begins with these bytes.
    pub(crate) fn spoke_otherwise(&self, bytes: Vec<u8>) {
        self.seen().first_bytes = FirstBytes::Other(bytes);
    }

    /// The evidence that the server cannot be called over gRPC; `None` if it can.
    pub(crate) fn evidence(&self) -> Option<Evidence> {
        let seen = self.seen();
        let not_grpc = |why: &str, maybe_hangs: bool| {
            // The error to explain may be that of a connection which did work.
            let (why, maybe_sent) = (Why::NotGrpc(why.to_owned()), maybe_hangs || seen.spoke);
            Some(Evidence { why, maybe_sent, is_certain: !maybe_hangs })
        };
        match &seen.first_bytes {
            FirstBytes::NotConnected | FirstBytes::Http2 => None,
            FirstBytes::Nothing => not_grpc(facts::NOT_GRPC_SILENT, true),
            FirstBytes::Closed { is_plain: false } => not_grpc(facts::NOT_GRPC_CLOSED, true),
            // As TLS servers do.
            FirstBytes::Closed { is_plain: true } => not_grpc(facts::NOT_GRPC_CLOSED_PLAIN, true),
            FirstBytes::Other(bytes) if bytes.starts_with(&TLS_ALERT) => not_grpc(facts::NOT_GRPC_TLS_ALERT, false),
            FirstBytes::Other(bytes) => not_grpc(&facts::NOT_GRPC_OTHER.replace("{}", &shown(bytes)), false),
            FirstBytes::Tls(Broken { failure, is_certain }) => {
                let (why, maybe_sent) = (Why::Tls(failure.clone()), !is_certain || seen.spoke);
                Some(Evidence { why, maybe_sent, is_certain: *is_certain })
            }
        }
    }
}

/// The first line, if it is text.
fn shown(bytes: &[u8]) -> String {
    let line: Vec<u8> = bytes.iter().copied().take_while(|byte| !b"\r\n".contains(byte)).collect();
    match String::from_utf8(line) {
        Ok(line) if !line.is_empty() && !line.contains(char::is_control) => format!("{line:?}"),
        _ => facts::NOT_GRPC_BYTES.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_only_broke_refutes_nothing() {
        let greeting = Greeting::default();
        let certain =
            Broken { failure: TlsFailure::ClientCertificateRefused(Some("alert".to_owned())), is_certain: true };
        let broken = Broken { failure: TlsFailure::ClientCertificateRefused(None), is_certain: false };
        greeting.tls_failed(broken.clone());
        assert!(greeting.evidence().unwrap().maybe_sent);
        greeting.tls_failed(certain.clone());
        greeting.tls_failed(broken);
        let Evidence { why, maybe_sent, .. } = greeting.evidence().unwrap();
        assert_eq!((why, maybe_sent), (Why::Tls(certain.failure), false));
        greeting.unreachable();
        assert_eq!(greeting.evidence(), None);
    }
}
