//! The audit log of the server.

use super::{ServeError, tls::RELOAD_PERIOD};
use crate::{
    config::{Config, ConfigError, Problem},
    telemetry::{
        audit::{Audit, AuditFile},
        metrics::AuditMetrics,
    },
};
use std::{convert::Infallible, future::pending, io, path::Path, sync::Arc};
use tokio::{task::spawn_blocking, time::sleep};

/// Opens the audit log, if there is one. Once only: a pipe's reader would take the end of a first opening for its end.
pub(super) fn open(config: &Config) -> Result<Option<AuditFile>, ConfigError> {
    let Some(path) = &config.audit_log else { return Ok(None) };
    AuditFile::open(path).map(Some).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &io::Error) -> ConfigError {
    let (at, value) = ("audit_log".to_owned(), path.display().to_string());
    ConfigError { problems: vec![Problem { at, value, rule: format!("cannot be written: {error}") }] }
}

/// Begins to write.
pub(super) fn start(
    file: Option<AuditFile>,
    config: &Config,
    metrics: Arc<AuditMetrics>,
) -> Result<Option<Arc<Audit>>, ServeError> {
    let (Some(file), Some(path)) = (file, &config.audit_log) else { return Ok(None) };
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let audit = Audit::start(file, format!("{host} {}", config.listen), metrics);
    Ok(Some(Arc::new(audit.map_err(|error| cannot_write(path, &error))?)))
}

/// Notices when the file was moved away.
pub(super) async fn follow(audit: Option<&Audit>) -> Infallible {
    let Some(audit) = audit else { return pending().await };
    loop {
        sleep(RELOAD_PERIOD).await;
        audit.look();
    }
}

/// Waits for pending lines at the end of the server.
pub(super) async fn finish(audit: Option<Arc<Audit>>) {
    if let Some(audit) = audit {
        // An error means that the runtime ends: then the last owner waits.
        let _ = spawn_blocking(move || audit.finish()).await;
    }
}
