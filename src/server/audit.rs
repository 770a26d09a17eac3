//! The audit log of the server.

use super::tls::RELOAD_PERIOD;
use crate::{
    config::{Config, ConfigError, Problem},
    telemetry::{audit::Audit, metrics::AuditMetrics},
};
use std::{convert::Infallible, future::pending, sync::Arc};
use tokio::time::sleep;

/// Opens the audit log, if there is one.
pub(super) fn open(config: &Config, metrics: Arc<AuditMetrics>) -> Result<Option<Arc<Audit>>, ConfigError> {
    let Some(path) = &config.audit_log else { return Ok(None) };
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let audit = Audit::open(path, format!("{host} {}", config.listen), metrics).map_err(|error| {
        let (at, value) = ("audit_log".to_owned(), path.display().to_string());
        ConfigError { problems: vec![Problem { at, value, rule: format!("cannot be written: {error}") }] }
    })?;
    Ok(Some(Arc::new(audit)))
}

/// Checks that the audit log can be written, so that a server starts only if it can.
pub fn check_audit_log(config: &Config) -> Result<(), ConfigError> {
    open(config, Arc::default()).map(drop)
}

/// Notices when the file was moved away.
pub(super) async fn follow(audit: Option<&Audit>) -> Infallible {
    let Some(audit) = audit else { return pending().await };
    loop {
        sleep(RELOAD_PERIOD).await;
        audit.look();
    }
}
