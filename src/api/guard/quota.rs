//! Quotas: which operations count, and what is refused.
//!
//! What keeps a lease, or gives it back, is never refused: a quota bounds what a caller takes, and takes nothing from
//! it (etcd #18100: leases of living clients expired, because what renewed them was limited with all the rest).

use super::Visitor;
use crate::{
    access::{Allowance, Exceeded, InUse, Limit, QuotaMode},
    domain::{limits::RETRY_DELAY, name::LockName},
    locks::{LocksError, OverQuota, Permission},
    telemetry::metrics::{AccessMode, Label, OperationKind},
};
use parking_lot::Mutex;

/// What of an operation a quota may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limited {
    /// Nothing.
    Never,
    /// The call, on one connection too many.
    Call,
    /// The same, and acquires.
    Acquire,
}

impl Limited {
    /// Without a wildcard, so that a new operation does not compile until somebody has decided.
    fn of(operation: OperationKind) -> Self {
        match operation {
            OperationKind::Acquire => Self::Acquire,
            OperationKind::Get
            | OperationKind::List
            | OperationKind::Watch
            | OperationKind::Observe
            | OperationKind::ListWaiters => Self::Call,
            // The streams that keep leases are counted by themselves: see `opens_stream`.
            OperationKind::KeepAlive
            | OperationKind::Session
            | OperationKind::Release
            | OperationKind::Renew
            | OperationKind::Convert
            | OperationKind::Describe
            | OperationKind::CheckToken
            | OperationKind::ForceRelease
            | OperationKind::Drain => Self::Never,
        }
    }
}

/// What the client of a stream may do, and what the stream uses of its quota while it is open.
struct OfStream {
    visitor: Visitor,
    /// Its leases. They count for the caller, and by the quota, of the moment when one was kept or ended last.
    leases: Mutex<Option<InUse>>,
    _stream: Option<InUse>,
}

impl Visitor {
    /// Whether the quota of the caller allows an operation, which counts from now on.
    ///
    /// Returns what the operation uses until it is over: an acquire may become a lease.
    pub(super) fn uses(&self, operation: OperationKind) -> Result<Option<InUse>, LocksError> {
        let limited = Limited::of(operation);
        if limited == Limited::Never {
            return Ok(None);
        }
        let Some(allowance) = self.allowance() else { return Ok(None) };
        self.exceeds(self.credentials.count_connection(&allowance))?;
        if limited == Limited::Call {
            return Ok(None);
        }
        let lease = self.takes(&allowance, Limit::Leases)?;
        self.exceeds(allowance.acquire())?;
        Ok(lease)
    }

    /// Counts an acquire that waits, until the value is dropped.
    pub(in crate::api) fn waits(&self) -> Result<Option<InUse>, LocksError> {
        self.allowance().map_or(Ok(None), |allowance| self.takes(&allowance, Limit::Waits))
    }

    /// Counts a stream of the caller, until the value is dropped.
    pub(in crate::api) fn streams(&self) -> Result<Option<InUse>, LocksError> {
        self.allowance().map_or(Ok(None), |allowance| self.takes(&allowance, Limit::Streams))
    }

    /// What the caller may do on a stream that opens now.
    pub(in crate::api) fn opens_stream(&self) -> Result<impl Permission + use<>, LocksError> {
        let stream = self.streams()?;
        Ok(OfStream { visitor: self.clone(), leases: Mutex::default(), _stream: stream })
    }

    fn allowance(&self) -> Option<Allowance> {
        self.credentials.ask(|verdict| verdict.allowance.clone())
    }

    fn takes(&self, allowance: &Allowance, limit: Limit) -> Result<Option<InUse>, LocksError> {
        let (in_use, exceeded) = allowance.take(limit);
        self.exceeds(exceeded)?;
        Ok(in_use)
    }

    /// Counts and logs what is above the quota, if anything is. An error, unless the quota is only observed.
    fn exceeds(&self, exceeded: Option<Exceeded>) -> Result<(), LocksError> {
        let Some(Exceeded { subject, limit, max, retry_in, mode }) = exceeded else { return Ok(()) };
        let label = match mode {
            QuotaMode::Observe => AccessMode::Observe,
            QuotaMode::Enforce => AccessMode::Enforce,
        };
        self.guard.quotas.exceeded(&subject, limit.text(), label);
        if let Some(refusals) = self.guard.log.count(1) {
            let suppressed = (refusals > 1).then_some(refusals - 1);
            let (mode, peer) = (label.text(), self.peer.map(tracing::field::display));
            tracing::warn!(caller = subject, limit = limit.text(), max, mode, peer, suppressed, "a quota is reached");
        }
        match mode {
            QuotaMode::Observe => Ok(()),
            QuotaMode::Enforce => {
                let retry_in = retry_in.unwrap_or_default().max(RETRY_DELAY);
                Err(OverQuota { subject, limit: limit.text(), max, retry_in }.into())
            }
        }
    }
}

impl Permission for OfStream {
    fn stay_open(&self) -> Result<(), LocksError> {
        self.visitor.stay_open()
    }

    fn may_keep(&self, name: &LockName) -> bool {
        self.visitor.may_keep(name)
    }

    fn keeps(&self, leases: usize) {
        let allowance = self.visitor.allowance();
        let (mut counted, leases) = (self.leases.lock(), u32::try_from(leases).unwrap_or(u32::MAX));
        match (&*counted, allowance) {
            (Some(counted), Some(allowance)) if counted.is_of(&allowance) => counted.set(leases),
            (_, allowance) => *counted = allowance.map(|allowance| allowance.count(Limit::Leases, leases)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_lease_or_gives_it_back_is_never_refused() {
        let limited = |kind| {
            let all = OperationKind::ALL.iter().copied();
            all.filter(|operation| Limited::of(*operation) == kind).map(Label::text).collect::<Vec<_>>()
        };
        assert_eq!(limited(Limited::Acquire), ["acquire"]);
        assert_eq!(limited(Limited::Call), ["get", "list", "watch", "observe", "list_waiters"]);
        for kept in ["keep_alive", "session", "release", "renew", "convert", "describe", "check_token"] {
            assert!(limited(Limited::Never).contains(&kept), "{kept}");
        }
    }
}
