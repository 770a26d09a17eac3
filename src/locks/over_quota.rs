//! What a caller would use above its quota.

use std::time::Duration;

/// What a caller would use above its quota. Nothing was done. The caller tries again on this server: each one has as
/// much for it, so another would only spread what is too much.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the quota of {subject:?} on this server, {max} {limit}, is used up: nothing was done; try again here later")]
pub struct OverQuota {
    /// The caller: its identity, or its address.
    pub subject: String,
    /// Which limit, as the access file names it.
    pub limit: &'static str,
    /// The most that it allows.
    pub max: u32,
    /// When to try again.
    pub retry_in: Duration,
}
