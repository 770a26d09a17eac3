//! Follows the files of TLS, so that a new certificate or authority needs no restart.
//!
//! Only new handshakes notice: open connections keep the certificate they began with. A new configuration has its own
//! memory of sessions, so no client resumes a session of the old one.

use super::{Tls, files::Contents, load, validity::Watch};
use crate::telemetry::metrics::{ConnectionMetrics, TlsReload};
use std::{convert::Infallible, time::Duration};
use tokio::{task::spawn_blocking, time::sleep};

/// How often the files are read. They are compared by content, because a mounted secret may keep its times.
pub(in crate::server) const RELOAD_PERIOD: Duration = Duration::from_secs(5);

impl Tls {
    /// Uses the files whenever they change and fit together. Until then, the server keeps what it has. The log says
    /// when that is about to expire.
    pub(in crate::server) async fn follow_files(&self, metrics: &ConnectionMetrics) -> Infallible {
        metrics.tls_expiry.set(self.first_expiry.at.timestamp());
        let (mut seen, mut validity) = (self.first.clone(), Watch::new(self.first_expiry));
        // What could not be used. It is tried again each time, because a certificate may become valid, but told once.
        let mut failed = None;
        loop {
            validity.look();
            sleep(RELOAD_PERIOD).await;
            let files = self.files.clone();
            let Ok(contents) = spawn_blocking(move || Contents::read(&files)).await else { continue };
            if contents == seen {
                continue;
            }
            match load::load(&self.files, &contents) {
                Ok(loaded) => {
                    loaded.log("the TLS files have changed; new connections use the new ones");
                    *self.current.write() = loaded.configs;
                    metrics.tls_expiry.set(loaded.expiry.at.timestamp());
                    validity = Watch::new(loaded.expiry);
                    metrics.tls_reloads.of(TlsReload::Ok).inc();
                    seen = contents;
                }
                Err(_) if failed.as_ref() == Some(&contents) => {}
                Err(error) => {
                    metrics.tls_reloads.of(TlsReload::Failed).inc();
                    for problem in &error.problems {
                        tracing::warn!(%problem, "cannot use the new TLS files; keeping the old ones");
                    }
                    failed = Some(contents);
                }
            }
        }
    }
}
