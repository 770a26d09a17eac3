//! TLS of the server: TLS 1.2 and 1.3, for HTTP/2 only. The files are checked at the start and followed afterwards.

mod files;
mod load;
mod reload;
mod validity;

pub(super) use reload::RELOAD_PERIOD;

use crate::config::{ConfigError, TlsFiles};
use files::Contents;
use parking_lot::RwLock;
use std::sync::Arc;
use tokio_rustls::rustls::ServerConfig;
use validity::Expiry;

/// The TLS of the server. Each handshake uses the newest files that fit together.
#[derive(Debug)]
pub(super) struct Tls {
    files: TlsFiles,
    /// What the files contained at the start.
    first: Contents,
    /// When the certificate expires with which the server started.
    first_expiry: Expiry,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads and checks the files.
    pub(super) fn load(files: TlsFiles) -> Result<Self, ConfigError> {
        let first = Contents::read(&files);
        let loaded = load::load(&files, &first)?;
        loaded.log("TLS is on");
        Ok(Self { files, first, first_expiry: loaded.expiry, current: RwLock::new(Arc::new(loaded.config)) })
    }

    /// The configuration for a new handshake.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.current.read().clone()
    }
}
