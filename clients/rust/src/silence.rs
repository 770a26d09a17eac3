//! Calls that got no answer.

use std::error::Error;
use std::sync::Arc;
use tonic::{Status, TimeoutExpired};

/// The reason of a status that this client made because no answer came in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer in time")]
struct NoAnswer;

/// The status of a call that got no answer in time.
pub(crate) fn no_answer() -> Status {
    let mut status = Status::deadline_exceeded(NoAnswer.to_string());
    status.set_source(Arc::new(NoAnswer));
    status
}

/// Whether a call got no answer, not even an error. tonic has a timer of its own, with the same deadline.
pub(crate) fn is_silence(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<NoAnswer>() || error.is::<TimeoutExpired>() {
            return true;
        }
        source = error.source();
    }
    false
}
