//! Reads certificates and keys from PEM files.

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};

/// Why the [`Tls`](crate::Tls) settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFileError {
    /// A file cannot be used.
    #[error("cannot use {}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The machine has no usable root certificates.
    #[error("this machine has no usable root certificates ({0}); name the file of the server's authority")]
    NoRoots(String),
    /// The name is not one that a certificate can have.
    #[error("{0:?} is neither a host name nor an IP address that a certificate could be valid for")]
    ServerName(String),
    /// The TLS library does not support these settings.
    #[error("TLS cannot be set up: {0}")]
    Unsupported(String),
}

fn unusable(path: &Path, why: impl Into<String>) -> TlsFileError {
    TlsFileError::File { path: path.to_owned(), why: why.into() }
}

/// All certificates of a file; at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| unusable(path, reason(&error, "certificate")))?;
    if found.is_empty() { Err(unusable(path, reason(&pem::Error::NoItemsFound, "certificate"))) } else { Ok(found) }
}

fn reason(error: &pem::Error, what: &str) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => format!("it contains no {what} in PEM format (-----BEGIN …)"),
        other => format!("it is not a PEM file ({other})"),
    }
}

/// The authorities in these files.
pub(super) fn authorities(paths: &[PathBuf]) -> Result<RootCertStore, TlsFileError> {
    let mut roots = RootCertStore::empty();
    for path in paths {
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(|error| unusable(path, format!("not a valid certificate ({error})")))?;
        }
    }
    Ok(roots)
}

/// The root certificates of this machine, or those in `SSL_CERT_FILE` and `SSL_CERT_DIR`.
pub(super) fn machine_roots() -> Result<RootCertStore, TlsFileError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Machines have certificates that rustls rejects. Servers that use them fail later.
    let (usable, rejected) = roots.add_parsable_certificates(found.certs);
    if usable > 0 {
        return Ok(roots);
    }
    let why = found.errors.first().map(ToString::to_string);
    Err(TlsFileError::NoRoots(why.unwrap_or_else(|| format!("{rejected} found, all invalid"))))
}

/// A certificate with its chain, and the key that fits it.
pub(super) fn certified_key(
    certificate: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsFileError> {
    let chain = certificates(certificate)?;
    let parsed = PrivateKeyDer::from_pem_file(key).map_err(|error| match error {
        pem::Error::NoItemsFound => unusable(
            key,
            "it contains no private key in PEM format (-----BEGIN PRIVATE KEY-----); an encrypted key must be \
             decrypted",
        ),
        other => unusable(key, reason(&other, "private key")),
    })?;
    CertifiedKey::from_der(chain, parsed, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            unusable(key, format!("it is not the key of the certificate in {}", certificate.display()))
        }
        other => unusable(key, format!("{other} (certificate: {})", certificate.display())),
    })
}
