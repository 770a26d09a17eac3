//! TLS files of the server, and their dependencies on each other.

use std::path::PathBuf;

/// The PEM files of the server's TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by its intermediates.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The authorities of client certificates. Without this file, clients need no certificate.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// The files, or `None` without TLS. The error is the key of an option that cannot be used, and the reason.
    pub(super) fn new(
        cert: Option<PathBuf>,
        key: Option<PathBuf>,
        client_ca: Option<PathBuf>,
    ) -> Result<Option<Self>, (&'static str, &'static str)> {
        match (cert, key, client_ca) {
            (Some(cert), Some(key), client_ca) => Ok(Some(Self { cert, key, client_ca })),
            (Some(_), None, _) => Err(("tls_cert", "needs the private key of the certificate as well: --tls-key FILE")),
            (None, Some(_), _) => Err(("tls_key", "needs the certificate of the key as well: --tls-cert FILE")),
            (None, None, Some(_)) => Err((
                "tls_client_ca",
                "needs a certificate of the server: --tls-cert FILE and --tls-key FILE. Without TLS, clients show none",
            )),
            (None, None, None) => Ok(None),
        }
    }
}
