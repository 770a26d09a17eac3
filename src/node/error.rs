//! Errors between this server and a node.

/// Why a command has no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The command did not reach the node, or the node refused it: nothing was done.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// The command was sent and no reply came: the node may or may not have run it.
    #[error("the store did not answer in time, the outcome is unknown: {0}")]
    OutcomeUnknown(String),
    /// The node holds or answers something that this server did not write or does not understand.
    #[error("the store holds something the server did not write: {0}")]
    Corrupt(String),
}
