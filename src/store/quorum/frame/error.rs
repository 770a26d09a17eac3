//! Why what another server sent cannot be read.

use super::{LAYOUT, MESSAGE_BYTES_MAX};
use crate::store::fields::FieldError;

/// Why a parcel, or what a server told, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Nothing is there.
    #[error("it is empty")]
    Empty,
    /// It is longer than it may be.
    #[error("it has {0} bytes, and there are at most {1}")]
    TooLong(usize, usize),
    /// Another version of the server sent it.
    #[error(
        "it has layout {0}, and this server reads layout {LAYOUT}: another version of the server sent it. Servers that \
         share a store have to be of versions that read each other"
    )]
    OtherLayout(u8),
    /// It is no message.
    #[error("it is damaged: {0}")]
    Damaged(#[from] prost::DecodeError),
    /// It ends too early.
    #[error("it is damaged: it is cut off")]
    CutOff,
    /// A message is longer than any.
    #[error("it is damaged: it has a message of {0} bytes, and one has at most {MESSAGE_BYTES_MAX}")]
    LongMessage(usize),
    /// It consists of more messages than it may.
    #[error("it is damaged: it has too many messages")]
    TooMany,
    /// A field of it is not as it always is.
    #[error(transparent)]
    Field(#[from] FieldError),
}
