//! Which metrics an outcome moves.

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
        LocksError::OtherTerms | LocksError::MinTokenTooHigh { .. } | LocksError::Store(StoreError::BadPageToken) => {
            AcquireFailure::Invalid
        }
        LocksError::QueueFull { .. } => AcquireFailure::QueueFull,
        LocksError::ServerFull { .. } | LocksError::SessionFull { .. } | LocksError::WatchersFull { .. } => {
            AcquireFailure::ServerFull
        }
        LocksError::Shared => AcquireFailure::Shared,
        LocksError::Forgotten => AcquireFailure::PlaceLost,
        LocksError::TooLate(_) => AcquireFailure::TooLate,
        LocksError::Draining => AcquireFailure::Draining,
        LocksError::TokensExhausted => AcquireFailure::TokensExhausted,
        LocksError::Store(StoreError::Unavailable(_)) => AcquireFailure::StoreUnavailable,
        LocksError::Store(StoreError::Overloaded) => AcquireFailure::StoreOverloaded,
        LocksError::Store(StoreError::OutcomeUnknown(_)) => AcquireFailure::OutcomeUnknown,
        LocksError::Store(StoreError::Corrupt(_)) => AcquireFailure::StoreCorrupt,
    }
}

/// Counts a renewal, and the loss that it found. A lease that is attached elsewhere is neither.
pub(super) fn renewal(metrics: &LockMetrics, outcome: Result<&RenewOutcome, ()>) {
    let renewal = match outcome {
        Ok(RenewOutcome::Renewed(_)) => Renewal::Renewed,
        Ok(RenewOutcome::Lost(gone)) => {
            loss(metrics, gone.fate);
            Renewal::Lost
        }
        Ok(RenewOutcome::AttachedElsewhere) => return,
        Err(()) => Renewal::Failed,
    };
    metrics.renewals.of(renewal).inc();
}

/// Counts a loss. The holder gave a released lease back, so that is none.
pub(super) fn loss(metrics: &LockMetrics, fate: Fate) {
    let cause = match fate {
        Fate::Ended(LeaseEnd::Released) => return,
        Fate::Ended(LeaseEnd::Expired) => Loss::Expired,
        Fate::Ended(LeaseEnd::Revoked) => Loss::Revoked,
        Fate::Superseded => Loss::Superseded,
        Fate::Unknown => Loss::Unknown,
    };
    metrics.losses.of(cause).inc();
}
