//! Metrics of commands without an answer.

use super::StoreError;
use crate::telemetry::metrics::{StoreFailure, StoreMetrics};

/// Counts a command that has no answer.
pub(super) fn measure<T>(metrics: &StoreMetrics, answer: &Result<T, StoreError>) {
    let failure = match answer {
        Ok(_) | Err(StoreError::BadPageToken | StoreError::NotAllServers { .. }) => return,
        Err(StoreError::Unavailable(_)) => StoreFailure::Unavailable,
        Err(StoreError::Overloaded) => StoreFailure::Overloaded,
        Err(StoreError::TooLate) => StoreFailure::TooLate,
        Err(StoreError::OutcomeUnknown(_)) => StoreFailure::Unknown,
        Err(StoreError::Corrupt(_)) => StoreFailure::Corrupt,
    };
    metrics.errors.of(failure).inc();
}
