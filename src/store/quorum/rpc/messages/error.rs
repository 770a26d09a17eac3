//! Errors of messages from other servers that cannot be decoded.

use super::LAYOUT;

/// Why a parcel, or a heartbeat, cannot be read.
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
        "it has layout {0}, and this server reads layout {LAYOUT}: another version of the server sent it. Servers \
         that share a store need versions that read each other"
    )]
    OtherLayout(u8),
    /// It is not what a server sends.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

impl From<minicbor::decode::Error> for FrameError {
    fn from(error: minicbor::decode::Error) -> Self {
        let text = error.to_string();
        let why = if error.is_end_of_input() { "it is cut off" } else { text.trim_start_matches("decode error: ") };
        Self::Damaged(why.to_owned())
    }
}
