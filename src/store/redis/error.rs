//! The errors of a node as those of a store, and as metrics.

use crate::{
    node::NodeError,
    store::StoreError,
    telemetry::metrics::{StoreFailure, StoreMetrics},
};

impl From<NodeError> for StoreError {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Unavailable(why) => Self::Unavailable(why),
            NodeError::Overloaded => Self::Overloaded,
            NodeError::OutcomeUnknown(why) => Self::OutcomeUnknown(why),
            NodeError::Corrupt(why) => Self::Corrupt(why),
        }
    }
}

/// Counts a command that has no answer.
pub(super) fn measure<T>(metrics: &StoreMetrics, answer: &Result<T, StoreError>) {
    let failure = match answer {
        Ok(_) | Err(StoreError::BadPageToken) => return,
        Err(StoreError::Unavailable(_)) => StoreFailure::Unavailable,
        Err(StoreError::Overloaded) => StoreFailure::Overloaded,
        Err(StoreError::OutcomeUnknown(_)) => StoreFailure::Unknown,
        Err(StoreError::Corrupt(_)) => StoreFailure::Corrupt,
    };
    metrics.errors.of(failure).inc();
}
