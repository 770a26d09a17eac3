//! What the audit log is told of leases: that one was granted, or has ended.
//!
//! Unlike an event for watchers, a note is for one server only: the one that has carried the change out.

use crate::domain::{
    command::Effect,
    lease::{Lease, LeaseEnd, MaxHold},
    mode::ModeName,
    name::LockName,
    rules::Lock,
    token::FencingToken,
};

/// A note for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditNote {
    /// What happened.
    pub kind: AuditNoteKind,
    /// The lock.
    pub name: LockName,
    /// The label of the lease's holder.
    pub holder: String,
    /// Who its holder is, where that was verified.
    pub identity: Option<String>,
    /// Its token.
    pub token: FencingToken,
    /// Its mode.
    pub mode: ModeName,
}

/// What happened to a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditNoteKind {
    /// It was granted.
    Granted,
    /// It was converted, and drew its token. It had this one before.
    Converted(FencingToken),
    /// Its holder released it.
    Released,
    /// Its TTL ran out, because of this `max_hold` if there is one.
    Expired(Option<MaxHold>),
    /// It was revoked, for this reason.
    Revoked(String),
}

impl AuditNote {
    /// Gives `each` the notes of the effects of one turn on this lock, in order. `reason` is that of the turn's
    /// command.
    pub fn of(effects: &[Effect], name: &LockName, lock: &Lock, reason: &str, mut each: impl FnMut(Self)) {
        for effect in effects {
            let noted = match effect {
                Effect::Granted(token) => lock.lease_of(*token).map(|lease| (AuditNoteKind::Granted, lease)),
                Effect::Changed { token, was } if token != was => {
                    lock.lease_of(*token).map(|lease| (AuditNoteKind::Converted(*was), lease))
                }
                Effect::Ended { lease, end } => Some((ended(lease, *end, reason), lease)),
                _ => None,
            };
            if let Some((kind, lease)) = noted {
                each(Self::about(kind, name, lease));
            }
        }
    }

    fn about(kind: AuditNoteKind, name: &LockName, lease: &Lease) -> Self {
        let identity = lease.terms.extra.as_ref().and_then(|extra| extra.identity.as_ref());
        Self {
            kind,
            name: name.clone(),
            holder: lease.terms.holder.as_str().to_owned(),
            identity: identity.map(|identity| identity.as_str().to_owned()),
            token: lease.token,
            mode: lease.terms.mode.name(),
        }
    }
}

fn ended(lease: &Lease, end: LeaseEnd, reason: &str) -> AuditNoteKind {
    match end {
        LeaseEnd::Released => AuditNoteKind::Released,
        LeaseEnd::Expired => AuditNoteKind::Expired(lease.max_hold_reached()),
        LeaseEnd::Revoked => AuditNoteKind::Revoked(reason.to_owned()),
    }
}
