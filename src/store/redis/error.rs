//! The errors of a node as those of a store, and as metrics.

use crate::{node::NodeError, store::StoreError};

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

pub(super) use crate::store::failures::measure;
