//! Grants and ends of leases in the audit log, if it is to have them.

use crate::{
    api::expired_because,
    clock::wall_time,
    domain::mode::ModeName,
    locks::Auditor,
    store::{AuditNote, AuditNoteKind},
    telemetry::audit::{Audit, AuditEvent},
};
use std::sync::Arc;

/// Writes grants and ends of leases to the audit log.
#[derive(Debug)]
pub(super) struct AuditedGrants(pub(super) Arc<Audit>);

impl Auditor for AuditedGrants {
    fn note(&self, note: AuditNote) {
        write(&self.0, note);
    }
}

/// A conversion that drew a token is two lines, so that each token has one beginning and one end.
fn write(audit: &Audit, note: AuditNote) {
    let AuditNote { kind, name, holder, identity, token, mode } = note;
    let line = |event, outcome, reason: Option<String>, token: u64| AuditEvent {
        event,
        outcome,
        reason: reason.filter(|reason| !reason.is_empty()),
        identity: identity.clone(),
        holder: Some(holder.clone()).filter(|holder| !holder.is_empty()),
        lock_name: Some(name.as_str().to_owned()),
        fencing_token: Some(token),
        mode: Some(mode_text(mode)),
        ..AuditEvent::default()
    };
    let (at, token) = (wall_time(), token.get());
    match kind {
        AuditNoteKind::Granted => audit.note(at, &line("granted", "acquired", None, token)),
        AuditNoteKind::Converted(was) => {
            audit.note(at, &line("ended", "converted", None, was.get()));
            audit.note(at, &line("granted", "converted", None, token));
        }
        AuditNoteKind::Released => audit.note(at, &line("ended", "released", None, token)),
        AuditNoteKind::Expired(max_hold) => {
            audit.note(at, &line("ended", "expired", max_hold.map(expired_because), token));
        }
        AuditNoteKind::Revoked(reason) => audit.note(at, &line("ended", "revoked", Some(reason), token)),
    }
}

fn mode_text(mode: ModeName) -> &'static str {
    match mode {
        ModeName::Exclusive => "exclusive",
        ModeName::Shared => "shared",
        ModeName::Semaphore => "semaphore",
    }
}
