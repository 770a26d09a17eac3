//! What can go wrong in a store. A refusal by the rules is not among it.

/// Why a command has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The command did not reach the store: nothing was done.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// The store has more to do than it can: the command was not sent to it, and nothing was done.
    #[error("more is asked of the store than it can do: this was not sent to it, and nothing was done")]
    Overloaded,
    /// The command was sent and no answer came: it may or may not have been done.
    #[error("the store did not answer in time, the outcome is unknown: {0}")]
    OutcomeUnknown(String),
    /// What the store holds is not what the server wrote.
    #[error("the store holds something the server did not write: {0}")]
    Corrupt(String),
    /// The listing cannot go on from there: the text is not one that a page gave.
    #[error("the page token is not one that a page of this listing gave")]
    BadPageToken,
}

impl StoreError {
    /// Whether the command has certainly not been carried out, and will not be.
    pub fn is_nothing_done(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Overloaded)
    }
}
