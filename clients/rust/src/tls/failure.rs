//! Why TLS with a server failed.

use super::Shown;
use crate::facts;
use rustls::{AlertDescription, CertificateError, Error as TlsError};
use std::fmt;
use std::io::{Error as IoError, ErrorKind};

/// Why a TLS connection to a server could not be used. Nothing was done over it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsFailure {
    /// No trusted authority has issued the server's certificate. It may be self-signed.
    Untrusted,
    /// The server's certificate has expired.
    Expired,
    /// The server's certificate is not valid yet.
    NotYetValid,
    /// The server's certificate is for other names.
    WrongName {
        /// The names in the certificate.
        names: Vec<String>,
    },
    /// The server's certificate is unusable for another reason.
    BadCertificate(String),
    /// The port does not speak TLS.
    NotTls,
    /// The server asks for a client certificate, and none was given.
    ClientCertificateMissing,
    /// The server refused the client certificate. Has the TLS alert, if there was one.
    ClientCertificateRefused(Option<String>),
    /// The client's own files can no longer be used.
    Files(String),
    /// Any other failure.
    Other(String),
}

impl TlsFailure {
    /// Whether it stays until somebody changes certificates or addresses. Files may be in the middle of a rotation.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Untrusted
            | Self::Expired
            | Self::NotYetValid
            | Self::WrongName { .. }
            | Self::BadCertificate(_)
            | Self::NotTls
            | Self::ClientCertificateMissing
            | Self::ClientCertificateRefused(_) => true,
            Self::Files(_) | Self::Other(_) => false,
        }
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untrusted => f.write_str(facts::TLS_UNTRUSTED),
            Self::Expired => f.write_str(facts::TLS_EXPIRED),
            Self::NotYetValid => f.write_str("the server's certificate is not valid yet, by the clock of this machine"),
            Self::WrongName { names } if names.is_empty() => {
                write!(f, "{}, nor for any other", facts::TLS_WRONG_NAME)
            }
            Self::WrongName { names } => {
                write!(f, "{}, only for {}", facts::TLS_WRONG_NAME, names.join(", "))
            }
            Self::BadCertificate(why) => write!(f, "the server's certificate cannot be used: {why}"),
            Self::NotTls => f.write_str(facts::TLS_NOT_TLS),
            Self::ClientCertificateMissing => f.write_str(facts::TLS_CLIENT_CERTIFICATE_MISSING),
            Self::ClientCertificateRefused(Some(alert)) => {
                write!(f, "{} (TLS alert {alert})", facts::TLS_CLIENT_CERTIFICATE_REFUSED)
            }
            Self::ClientCertificateRefused(None) => {
                f.write_str("the server closed the connection after it had received the client certificate")
            }
            Self::Files(why) => f.write_str(why),
            Self::Other(why) => write!(f, "the TLS handshake failed: {why}"),
        }
    }
}

/// Why a connection broke before the server had sent anything over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) failure: TlsFailure,
    /// Whether the handshake failed. If not, the server may have accepted it, and then closed the connection.
    pub(crate) is_certain: bool,
}

/// Explains an error of a TLS connection, in the handshake or until the server has sent its first byte.
///
/// In TLS 1.3 a client has finished its handshake before the server has checked the client's certificate, so a refusal
/// arrives with the first read.
pub(crate) fn explain(error: &IoError, shown: Shown) -> Broken {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) {
        Some(error) => Broken { failure: tls_error(error, shown), is_certain: true },
        None => Broken { failure: closed(error, shown), is_certain: false },
    }
}

fn tls_error(error: &TlsError, shown: Shown) -> TlsFailure {
    match error {
        TlsError::InvalidCertificate(error) => certificate(error),
        TlsError::AlertReceived(alert) => alerted(*alert, shown),
        TlsError::InvalidMessage(_) | TlsError::InappropriateMessage { .. } => TlsFailure::NotTls,
        other => TlsFailure::Other(other.to_string()),
    }
}

fn certificate(error: &CertificateError) -> TlsFailure {
    match error {
        // A bad signature: another authority of the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => TlsFailure::Untrusted,
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsFailure::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => TlsFailure::NotYetValid,
        CertificateError::NotValidForName => TlsFailure::WrongName { names: Vec::new() },
        CertificateError::NotValidForNameContext { presented, .. } => {
            TlsFailure::WrongName { names: presented.iter().map(|name| plain_name(name)).collect() }
        }
        // Hidden in an error of the verifier.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => TlsFailure::BadCertificate(
            "it is the certificate of an authority; issue a server certificate (basicConstraints CA:FALSE)".to_owned(),
        ),
        other => TlsFailure::BadCertificate(other.to_string()),
    }
}

/// `DnsName("a")` and `IpAddress(127.0.0.1)` without the names of their types.
fn plain_name(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"').to_owned()
}

fn alerted(alert: AlertDescription, shown: Shown) -> TlsFailure {
    use AlertDescription as Alert;
    let name = || format!("{alert:?}");
    match (alert, shown) {
        (Alert::CertificateRequired, _) => TlsFailure::ClientCertificateMissing,
        (Alert::NoApplicationProtocol, _) => {
            TlsFailure::Other("the server offers no HTTP/2 (ALPN h2) on this port".to_owned())
        }
        (Alert::UnrecognisedName, _) => TlsFailure::Other("the server does not know this host name".to_owned()),
        // In TLS 1.2 there is no alert of its own for a missing certificate.
        (Alert::HandshakeFailure | Alert::BadCertificate | Alert::AccessDenied, Shown::Missing) => {
            TlsFailure::ClientCertificateMissing
        }
        (_, Shown::Certificate) => TlsFailure::ClientCertificateRefused(Some(name())),
        (_, Shown::NotAsked | Shown::Missing) => TlsFailure::Other(format!("the server sent the alert {}", name())),
    }
}

fn closed(error: &IoError, shown: Shown) -> TlsFailure {
    match shown {
        Shown::Missing => TlsFailure::ClientCertificateMissing,
        Shown::Certificate => TlsFailure::ClientCertificateRefused(None),
        Shown::NotAsked if [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset].contains(&error.kind()) => {
            TlsFailure::Other("the server closed the connection; it may be a port without TLS".to_owned())
        }
        Shown::NotAsked => TlsFailure::Other(error.to_string()),
    }
}
