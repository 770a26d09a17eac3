//! TLS settings, and what they make of each connection.

mod failure;
mod files;

pub use failure::TlsFailure;
pub use files::TlsFileError;

pub(crate) use failure::{Broken, explain};

use crate::address::ServerAddress;
use files::{authorities, certified_key, machine_roots};
use rustls::client::ResolvesClientCert;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name of HTTP/2 in the TLS handshake.
const HTTP2: &[u8] = b"h2";

/// TLS settings for `https://` servers. By default the machine's root certificates are trusted, and the client shows no
/// certificate.
///
/// All files are PEM files. They are read when the client is built, which reports unusable ones, and again for each
/// connection, so that a rotated certificate needs no restart. An open connection keeps the certificate that it began
/// with.
///
/// ```no_run
/// # fn example() -> Result<(), fencepost_client::ConfigError> {
/// use fencepost_client::{Client, Tls};
/// let tls = Tls::new().ca_file("/etc/locks/ca.pem").identity_files("/etc/locks/me.pem", "/etc/locks/me.key");
/// let client = Client::builder().server("https://locks.internal:7420").tls(tls).build()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Tls {
    authorities: Vec<PathBuf>,
    /// Certificate chain and private key.
    identity: Option<(PathBuf, PathBuf)>,
    server_name: Option<String>,
}

impl Tls {
    /// The default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the certificate authorities in this file, in place of the machine's root certificates. May be repeated.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.authorities.push(path.into());
        self
    }

    /// Shows the certificate (the file may contain its chain) to servers that ask for one. The key must be unencrypted.
    pub fn identity_files(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.identity = Some((certificate.into(), key.into()));
        self
    }

    /// Expects the server's certificate to be valid for this name, in place of the host of the address.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Whether all settings are the defaults.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The name that the certificate of this server must be valid for.
    pub(crate) fn name_of(&self, address: &ServerAddress) -> Result<ServerName<'static>, TlsFileError> {
        let name = self.server_name.as_deref().or(address.host()).unwrap_or_default();
        ServerName::try_from(name.to_owned()).map_err(|_| TlsFileError::ServerName(name.to_owned()))
    }

    /// Reads the files, for one connection. Blocks.
    pub(crate) fn load(&self) -> Result<Loaded, TlsFileError> {
        // Not the provider that the process may have installed: a library must not depend on it.
        let provider = Arc::new(ring::default_provider());
        let roots = if self.authorities.is_empty() { machine_roots()? } else { authorities(&self.authorities)? };
        let key = match &self.identity {
            Some((certificate, key)) => Some(Arc::new(certified_key(certificate, key, &provider)?)),
            None => None,
        };
        let identity = Arc::new(Identity { key, asked: AtomicBool::new(false) });
        let versions = protocol_versions(provider)?;
        let mut config = versions.with_root_certificates(roots).with_client_cert_resolver(identity.clone());
        config.alpn_protocols = vec![HTTP2.to_vec()];
        Ok(Loaded { config: Arc::new(config), identity })
    }
}

/// TLS 1.2 and 1.3.
fn protocol_versions(
    provider: Arc<CryptoProvider>,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, TlsFileError> {
    let builder = ClientConfig::builder_with_provider(provider);
    builder.with_safe_default_protocol_versions().map_err(|error| TlsFileError::Unsupported(error.to_string()))
}

/// The settings of one connection.
pub(crate) struct Loaded {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) identity: Arc<Identity>,
}

/// The client's certificate, and whether the server of this connection has asked for one.
#[derive(Debug)]
pub(crate) struct Identity {
    key: Option<Arc<CertifiedKey>>,
    asked: AtomicBool,
}

/// What a server knows of the client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// It did not ask for one.
    NotAsked,
    /// It asked for one, and there is none.
    Missing,
    /// It asked for one and has it.
    Certificate,
}

impl Identity {
    pub(crate) fn shown(&self) -> Shown {
        match (self.asked.load(Ordering::Relaxed), &self.key) {
            (false, _) => Shown::NotAsked,
            (true, None) => Shown::Missing,
            (true, Some(_)) => Shown::Certificate,
        }
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.asked.store(true, Ordering::Relaxed);
        self.key.clone()
    }

    fn has_certs(&self) -> bool {
        self.key.is_some()
    }
}
