//! Errors of a store. A refusal by the rules is an outcome, not an error.

use crate::domain::command::WrongOutcome;

/// Why a command has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The command did not reach the store: nothing was done.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// The store has more to do than it can: the command was not sent to it, and nothing was done.
    #[error("the store is overloaded: the command was not sent, and nothing was done")]
    Overloaded,
    /// The command reached the leader when its caller had given up: nothing was done.
    #[error("the command reached the leader of the partition too late, and nothing was done")]
    TooLate,
    /// The command was sent and no answer came: it may or may not have been done.
    #[error("the store did not answer in time, so the outcome is unknown: {0}")]
    OutcomeUnknown(String),
    /// The store holds data that the server did not write.
    #[error("the store holds data that the server did not write: {0}")]
    Corrupt(String),
    /// Some servers of the store do not understand the command: nothing was done.
    #[error(
        "{lacking} of the {all} servers of this store are of a version that does not know {feature}, and nothing was \
         done: upgrade all servers, or leave {feature} out"
    )]
    NotAllServers {
        /// What they do not know, as callers name it.
        feature: String,
        /// How many they are.
        lacking: usize,
        /// How many servers there are.
        all: usize,
    },
    /// The text is not a page token of this listing.
    #[error("the page token was not issued by this listing")]
    BadPageToken,
}

impl StoreError {
    /// Whether the command has certainly not been carried out, and will not be.
    pub fn is_nothing_done(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Overloaded | Self::TooLate | Self::NotAllServers { .. })
    }
}

impl From<WrongOutcome> for StoreError {
    fn from(wrong: WrongOutcome) -> Self {
        Self::Corrupt(wrong.to_string())
    }
}
