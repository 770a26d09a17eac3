//! Asks the access file about each operation: who the caller is, and whether a rule permits it.

mod quota;

use crate::{
    access::{Access, Connection, Credentials, InUse, Mode, Refusal, Verb, Verdict},
    api::peer::{Origin, Peer},
    clock::wall_time,
    domain::name::LockName,
    locks::{Denied, Forbidden, LocksError, NotPermitted, Target},
    telemetry::{
        audit::{Audit, AuditEvent},
        metrics::{AccessMetrics, AccessMode, Denial, Label, OperationKind, QuotaMetrics},
        seldom::Seldom,
    },
};
use std::{fmt, sync::Arc, time::Duration};
use tonic::codegen::http::{HeaderMap, header::AUTHORIZATION};

/// How often the log tells of denials, and in how many lines: enough for an operator to see who lacks what.
const LOG_PERIOD: Duration = Duration::from_secs(10);
const LOG_LINES_MAX: u32 = 20;
/// The most denials in a second that the audit log gets: a flood of them must not fill the disk.
const AUDIT_LINES_MAX: u32 = 1_000;
const AUDIT_PERIOD: Duration = Duration::from_secs(1);
/// The most locks that a denial names as permitted.
const PERMITTED_SHOWN: usize = 16;

/// What an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// An identity. A stream needs no more to open: each operation on it is asked about by itself.
    Identity,
    /// A rule that permits this verb.
    Verb(Verb),
}

impl Need {
    /// Without a wildcard, so that a new operation does not compile until somebody has decided what it needs.
    fn of(operation: OperationKind) -> Self {
        match operation {
            OperationKind::KeepAlive | OperationKind::Session => Self::Identity,
            OperationKind::Acquire
            | OperationKind::Release
            | OperationKind::Renew
            | OperationKind::Convert
            | OperationKind::Describe => Self::Verb(Verb::Acquire),
            OperationKind::Get
            | OperationKind::List
            | OperationKind::Watch
            | OperationKind::Observe
            | OperationKind::ListWaiters => Self::Verb(Verb::Read),
            OperationKind::CheckToken => Self::Verb(Verb::Check),
            OperationKind::ForceRelease => Self::Verb(Verb::Force),
            OperationKind::Drain => Self::Verb(Verb::Operate),
        }
    }
}

/// The access file of a server, and what it denies.
#[derive(Debug)]
pub struct Guard {
    access: Arc<Access>,
    metrics: Arc<AccessMetrics>,
    quotas: Arc<QuotaMetrics>,
    log: Seldom,
    audit: Option<Arc<Audit>>,
    audited: Seldom,
}

impl Guard {
    /// Asks this access file, and notes in the audit log what it denies.
    pub fn new(
        access: Arc<Access>,
        metrics: Arc<AccessMetrics>,
        quotas: Arc<QuotaMetrics>,
        audit: Option<Arc<Audit>>,
    ) -> Self {
        let log = Seldom::with_lines(LOG_LINES_MAX, LOG_PERIOD);
        Self { access, metrics, quotas, log, audit, audited: Seldom::with_lines(AUDIT_LINES_MAX, AUDIT_PERIOD) }
    }

    /// Sets the metrics that are read from what callers use. To be called before they are read.
    pub fn measure(&self) {
        self.quotas.set_used(self.access.usage().into_iter().map(|(caller, limit, used)| (caller, limit.text(), used)));
    }

    /// The caller of a request with these headers, that came over this connection.
    pub(super) fn visitor(self: &Arc<Self>, headers: &HeaderMap, origin: Option<&Origin>) -> Visitor {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        // Nobody can tell which of several counts, so none is valid.
        let authorization = match (values.next(), values.next()) {
            (value, None) => value.map(|value| value.as_bytes()),
            (_, Some(_)) => Some(&[][..]),
        };
        let credentials = match origin.and_then(|origin| origin.shown.as_ref()) {
            Some(connection) => connection.credentials(authorization),
            // The admin port remembers nothing of a connection, because few calls come there.
            None => Connection::new(self.access.clone(), None, None).credentials(authorization),
        };
        Visitor { guard: self.clone(), credentials, peer: origin.map(Origin::peer) }
    }
}

/// A caller, by what it shows.
#[derive(Clone)]
pub(super) struct Visitor {
    guard: Arc<Guard>,
    credentials: Arc<Credentials>,
    peer: Option<Peer>,
}

impl Visitor {
    /// Whether the caller may carry out an operation, which counts in its quota from now on. What is denied is counted
    /// and logged, and refused unless the file is only observed.
    ///
    /// Returns what the operation uses of the quota until it is over.
    pub(super) fn may(&self, operation: OperationKind, target: Target<'_>) -> Result<Option<InUse>, LocksError> {
        self.has(Need::of(operation), target)?;
        self.uses(operation)
    }

    /// Whether the caller may go on with an operation. As [`Self::may`], but a file that is only observed ends nothing,
    /// so there is nothing to count again and again.
    pub(super) fn may_still(&self, operation: OperationKind, target: Target<'_>) -> Result<(), LocksError> {
        self.still_has(Need::of(operation), target)
    }

    fn still_has(&self, need: Need, target: Target<'_>) -> Result<(), LocksError> {
        match self.credentials.ask(|verdict| verdict.mode) {
            Mode::Open | Mode::Observe => Ok(()),
            Mode::Enforce => self.has(need, target),
        }
    }

    /// Whether the caller has an identity.
    pub(super) fn is_known(&self) -> Result<(), LocksError> {
        self.has(Need::Identity, Target::Server)
    }

    /// Whether a stream of the caller may stay open.
    fn stay_open(&self) -> Result<(), LocksError> {
        self.still_has(Need::Identity, Target::Server)
    }

    /// Whether the caller may keep a lease of this lock.
    fn may_keep(&self, name: &LockName) -> bool {
        self.has(Need::Verb(Verb::Acquire), Target::Lock(name)).is_ok()
    }

    fn has(&self, need: Need, target: Target<'_>) -> Result<(), LocksError> {
        let (denied, mode) = self.credentials.ask(|verdict| (denial(verdict, need, target), verdict.mode));
        let Some(denied) = denied else { return Ok(()) };
        match mode {
            Mode::Open => Ok(()),
            Mode::Observe => {
                self.note(&denied, AccessMode::Observe, need, target);
                Ok(())
            }
            Mode::Enforce => {
                self.note(&denied, AccessMode::Enforce, need, target);
                Err(denied.into())
            }
        }
    }

    /// Who the caller is, if that is known.
    pub(super) fn identity(&self) -> Option<Arc<str>> {
        self.credentials.ask(|verdict| verdict.identity.as_ref().ok().map(|identity| identity.name.clone()))
    }

    fn note(&self, denied: &Denied, mode: AccessMode, need: Need, target: Target<'_>) {
        let reason = reason(denied);
        self.guard.metrics.denied(reason, mode);
        if let Some(audit) = &self.guard.audit
            && self.guard.audited.count(1).is_some()
        {
            audit.note(wall_time(), &self.event(reason, mode, need, target));
        }
        let Some(denials) = self.guard.log.count(1) else { return };
        let suppressed = (denials > 1).then_some(denials - 1);
        let peer = self.peer.map(tracing::field::display);
        let (reason, mode) = (reason.text(), mode.text());
        tracing::warn!(reason, mode, %denied, peer, suppressed, "denied by the access file");
    }
}

impl Visitor {
    fn event(&self, reason: Denial, mode: AccessMode, need: Need, target: Target<'_>) -> AuditEvent {
        let outcome = match mode {
            AccessMode::Observe => "observed",
            AccessMode::Enforce => "refused",
        };
        let (lock_name, prefix) = match target {
            Target::Lock(name) => (Some(name.as_str().to_owned()), None),
            Target::Prefix(prefix) => (None, Some(prefix.to_owned())),
            Target::Server => (None, None),
        };
        AuditEvent {
            event: "denied",
            outcome,
            reason: Some(reason.text().to_owned()),
            identity: self.identity().map(|name| name.to_string()),
            peer: self.peer.map(|peer| peer.to_string()),
            verb: if let Need::Verb(verb) = need { Some(verb.text()) } else { None },
            lock_name,
            prefix,
            ..AuditEvent::default()
        }
    }
}

/// Why a caller may not have what it needs; `None` if it may.
fn denial(verdict: &Verdict, need: Need, target: Target<'_>) -> Option<Denied> {
    let identity = match &verdict.identity {
        Ok(identity) => identity,
        Err(Refusal::Missing) => return Some(Denied::CredentialsMissing),
        Err(Refusal::Invalid) => return Some(Denied::CredentialsInvalid),
        Err(Refusal::Expired) => return Some(Denied::CredentialsExpired),
    };
    let (Need::Verb(verb), grants) = (need, &identity.grants) else { return None };
    let permitted = match target {
        Target::Lock(name) => grants.permit_lock(verb, name.as_str()),
        Target::Prefix(prefix) => grants.permit_prefix(verb, prefix),
        Target::Server => grants.permit(verb),
    };
    if permitted {
        return None;
    }
    let on = match target {
        Target::Lock(name) => Forbidden::Lock(name.as_str().to_owned()),
        Target::Prefix(prefix) => {
            let permitted = grants.locks(verb).take(PERMITTED_SHOWN).collect();
            Forbidden::Prefix { prefix: prefix.to_owned(), permitted }
        }
        Target::Server => Forbidden::Server,
    };
    let identity = (*identity.name).into();
    Some(Denied::NotPermitted(Box::new(NotPermitted { identity, verb: verb.text(), on })))
}

fn reason(denied: &Denied) -> Denial {
    match denied {
        Denied::CredentialsMissing => Denial::CredentialsMissing,
        Denied::CredentialsInvalid => Denial::CredentialsInvalid,
        Denied::CredentialsExpired => Denial::CredentialsExpired,
        Denied::NotPermitted(_) => Denial::NotPermitted,
    }
}

/// Without the credentials.
impl fmt::Debug for Visitor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Visitor")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_needs_what_the_manual_says() {
        let needs = |verb| {
            let all = OperationKind::ALL.iter().copied();
            all.filter(|operation| Need::of(*operation) == verb).map(Label::text).collect::<Vec<_>>()
        };
        assert_eq!(needs(Need::Identity), ["keep_alive", "session"]);
        assert_eq!(needs(Need::Verb(Verb::Acquire)), ["acquire", "release", "renew", "convert", "describe"]);
        assert_eq!(needs(Need::Verb(Verb::Read)), ["get", "list", "watch", "observe", "list_waiters"]);
        assert_eq!(needs(Need::Verb(Verb::Check)), ["check_token"]);
        assert_eq!(needs(Need::Verb(Verb::Force)), ["force_release"]);
        assert_eq!(needs(Need::Verb(Verb::Operate)), ["drain"]);
    }
}
