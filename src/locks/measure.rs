//! The metrics of an outcome.

use super::{AcquireAnswer, LocksError};
use crate::{
    domain::{
        lease::LeaseEnd,
        outcome::{Fate, RenewOutcome},
    },
    store::StoreError,
    telemetry::metrics::{AcquireFailure, LockMetrics, Loss, Renewal},
};

/// Counts an acquire that has not got the lock. The place that knows whether it waited counts the others.
pub(super) fn acquire(metrics: &LockMetrics, answer: &Result<AcquireAnswer, LocksError>) {
    let failure = match answer {
        Ok(AcquireAnswer::Acquired(_)) => return,
        Ok(AcquireAnswer::Contended(_)) => {
            metrics.contended.inc();
            return;
        }
        Ok(AcquireAnswer::TimedOut(_)) => AcquireFailure::TimedOut,
        Err(error) => failure(error),
    };
    metrics.acquire_failures.of(failure).inc();
}

fn failure(error: &LocksError) -> AcquireFailure {
    match error {
        LocksError::Overtaken => AcquireFailure::Overtaken,
        LocksError::Ended => AcquireFailure::Ended,
        LocksError::OtherTerms
        | LocksError::MinTokenTooHigh { .. }
        | LocksError::Store(StoreError::BadPageToken)
        // The API refuses these before an acquire begins, and counts them.
        | LocksError::Denied(_)
        | LocksError::OverQuota(_) => AcquireFailure::Invalid,
        LocksError::QueueFull { .. } => AcquireFailure::QueueFull,
        LocksError::ServerFull { .. } | LocksError::SessionFull { .. } | LocksError::WatchersFull { .. } => {
            AcquireFailure::ServerFull
        }
        LocksError::Shared => AcquireFailure::Shared,
        LocksError::Forgotten => AcquireFailure::PlaceLost,
        LocksError::Draining => AcquireFailure::Draining,
        LocksError::TokensExhausted => AcquireFailure::TokensExhausted,
        LocksError::BesideClassic => AcquireFailure::BesideClassic,
        LocksError::ModeMismatch => AcquireFailure::ModeMismatch,
        LocksError::LimitMismatch(_) => AcquireFailure::LimitMismatch,
        // Of no acquire.
        LocksError::TokenOutdated | LocksError::NotConvertible => AcquireFailure::Invalid,
        LocksError::Store(StoreError::NotAllServers { .. }) => AcquireFailure::NotAllServers,
        LocksError::Store(StoreError::Unavailable(_)) => AcquireFailure::StoreUnavailable,
        LocksError::Store(StoreError::Overloaded) => AcquireFailure::StoreOverloaded,
        LocksError::Store(StoreError::TooLate) => AcquireFailure::TooLate,
        LocksError::Store(StoreError::OutcomeUnknown(_)) => AcquireFailure::OutcomeUnknown,
        LocksError::Store(StoreError::Corrupt(_)) => AcquireFailure::StoreCorrupt,
    }
}

/// Counts a renewal by a call, and the loss that it found. A lease that is attached elsewhere is neither.
pub(super) fn renewal(metrics: &LockMetrics, outcome: Result<&RenewOutcome, ()>) {
    let renewal = match outcome {
        Ok(RenewOutcome::Renewed(_)) => Renewal::Renewed,
        Ok(RenewOutcome::Lost(gone)) => {
            loss(metrics, gone.fate, false);
            lost(gone.fate, false)
        }
        Ok(RenewOutcome::AttachedElsewhere) => return,
        Err(()) => Renewal::Failed,
    };
    metrics.renewals.of(renewal).inc();
}

/// What a renewal that found the lease gone came to. `kept`: a stream of this server kept the lease, so it was one.
pub(super) fn lost(fate: Fate, kept: bool) -> Renewal {
    if kept || matches!(fate, Fate::Ended(_)) { Renewal::Lost } else { Renewal::Unknown }
}

/// Counts a loss. The holder gave a released lease back, so that is none. Nor is the end of what may never have been a
/// lease: the store does not know it, and no stream of this server `kept` it.
pub(super) fn loss(metrics: &LockMetrics, fate: Fate, kept: bool) {
    let cause = match fate {
        Fate::Ended(LeaseEnd::Released) => return,
        Fate::Ended(LeaseEnd::Expired) => Loss::Expired,
        Fate::Ended(LeaseEnd::Revoked) => Loss::Revoked,
        Fate::Superseded if kept => Loss::Superseded,
        Fate::Unknown if kept => Loss::Unknown,
        Fate::Superseded | Fate::Unknown => return,
    };
    metrics.losses.of(cause).inc();
}
