//! TLS of the server: TLS 1.2 and 1.3, with one certificate for both ports. The files are checked at the start and
//! followed afterwards.

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
    current: RwLock<Configs>,
}

/// The configurations for new handshakes.
#[derive(Clone, Debug)]
struct Configs {
    /// HTTP/2 only. Each client shows a certificate, if there are authorities for that.
    api: Arc<ServerConfig>,
    /// HTTP/1.1 too. Scrapers and probes have no certificates; one that is shown is checked.
    admin: Arc<ServerConfig>,
}

impl Tls {
    /// Reads and checks the files.
    pub(super) fn load(files: TlsFiles) -> Result<Self, ConfigError> {
        let first = Contents::read(&files);
        let loaded = load::load(&files, &first)?;
        loaded.log("TLS is on");
        Ok(Self { files, first, first_expiry: loaded.expiry, current: RwLock::new(loaded.configs) })
    }

    /// The configuration for a new handshake.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.current.read().api.clone()
    }

    /// That for a new handshake on the admin port.
    pub(super) fn admin_config(&self) -> Arc<ServerConfig> {
        self.current.read().admin.clone()
    }
}
