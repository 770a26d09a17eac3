//! The access file of the server: read at the start, and followed like the files of TLS.

use super::tls::RELOAD_PERIOD;
use crate::{
    access::{Access, Mode, Reload},
    clock::wall_time,
    config::{ConfigError, Problem},
    telemetry::{
        audit::{Audit, AuditEvent},
        metrics::{AccessMetrics, AccessReload},
    },
};
use std::{convert::Infallible, path::PathBuf, sync::Arc};
use tokio::{task::spawn_blocking, time::sleep};

/// Reads and checks the file.
pub(super) fn load(path: PathBuf) -> Result<Arc<Access>, ConfigError> {
    let value = path.display().to_string();
    match Access::load(path) {
        Ok(access) => {
            log(&access, "the access file restricts who may do what");
            Ok(Arc::new(access))
        }
        Err(error) => {
            let problem = Problem { at: "access".to_owned(), value, rule: error.to_string() };
            Err(ConfigError { problems: vec![problem] })
        }
    }
}

fn log(access: &Access, message: &'static str) {
    let policy = access.policy();
    let [tokens, issuers, certificates, rules, quotas] = policy.counts();
    let denies = policy.mode == Mode::Enforce;
    tracing::info!(denies, tokens, issuers, certificates, rules, quotas, "{message}");
}

/// Uses the file whenever it changes and is valid. Until then, the server keeps what it has.
pub(super) async fn follow(access: Arc<Access>, metrics: &AccessMetrics, audit: Option<&Audit>) -> Infallible {
    let note = |outcome, reason| {
        if let Some(audit) = audit {
            let event = AuditEvent { event: "access_reload", outcome, reason, ..AuditEvent::default() };
            audit.note(wall_time(), &event);
        }
    };
    loop {
        sleep(RELOAD_PERIOD).await;
        let looking = access.clone();
        let Ok(found) = spawn_blocking(move || looking.reload()).await else { continue };
        match found {
            Reload::Unchanged => {}
            Reload::Loaded => {
                metrics.reloads.of(AccessReload::Ok).inc();
                note("ok", None);
                log(&access, "the access file has changed, and counts from now on");
            }
            Reload::Refused(error) => {
                metrics.reloads.of(AccessReload::Failed).inc();
                note("failed", Some(error.to_string()));
                let file = access.path().display();
                tracing::error!(%file, %error, "cannot use the new access file; keeping the old one");
            }
        }
    }
}
