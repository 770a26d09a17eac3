//! Errors of calls that have no outcome. Each variant asks for a different reaction of the caller.

use super::{Denied, OverQuota};
use crate::{
    domain::{command::WrongOutcome, mode::PermitLimit},
    store::StoreError,
};

/// Why a call has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocksError {
    /// A newer attempt of the request is bound; only that one is answered.
    #[error("a newer attempt of this request took over, and only that one is answered")]
    Overtaken,
    /// The request has ended.
    #[error("this request has ended: use a new request_id for a new lease")]
    Ended,
    /// The id is bound to other parameters.
    #[error("this request_id was used before with other parameters: use a new one for a new request")]
    OtherTerms,
    /// `min_token` is too high.
    #[error("min_token must be at most {max}, 24 h above the server's time")]
    MinTokenTooHigh {
        /// The highest value allowed now.
        max: u64,
    },
    /// The queue of the lock is full.
    #[error("{max} requests already wait for this lock: try again later")]
    QueueFull {
        /// The bound.
        max: usize,
    },
    /// The server has the maximum number of waiting calls.
    #[error("{max} requests already wait on this server: try again later, or on another server")]
    ServerFull {
        /// The bound.
        max: usize,
    },
    /// The session has the maximum number of operations in flight, or of leases.
    #[error("{max} {what} on this session already: try again later, or open another session")]
    SessionFull {
        /// Which of the two.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// The server has the maximum number of watchers.
    #[error("{max} watch streams are already open on this server: try again later, or on another server")]
    WatchersFull {
        /// The bound.
        max: usize,
    },
    /// Another call of the same attempt still waits for the request.
    #[error("another call with the same attempt still waits for this request: retry it with a higher attempt")]
    Shared,
    /// The store has forgotten the request.
    #[error("the store lost this request's queue position: retry with the same request_id")]
    Forgotten,
    /// The server drains.
    #[error("this server is draining: retry with the same request_id, on another server if there is one")]
    Draining,
    /// The lock is in use in another mode.
    #[error(
        "the lock is in use in another mode, and SHARED and SEMAPHORE exclude each other: use another name for one of the \
         two"
    )]
    ModeMismatch,
    /// Another limit of the semaphore is in force.
    #[error(
        "limit {} of version {} is in force, which is another one of the same version, or has fewer permits than the \
         request asks for: give a changed limit a higher version",
        .0.permits, .0.version
    )]
    LimitMismatch(PermitLimit),
    /// The lease has another token than the caller knows.
    #[error("the lease has another token, because it was converted since: only the answer to that conversion counts")]
    TokenOutdated,
    /// The lease cannot have another mode.
    #[error("a lease of a semaphore cannot be converted: release it, and acquire the lock in the other mode")]
    NotConvertible,
    /// No token is left.
    #[error("the fencing tokens of this lock's partition are used up: the lock cannot be granted")]
    TokensExhausted,
    /// The lock is shared with classic clients.
    #[error(
        "classic clients share this lock (--classic-prefix), and see neither min_hold and lock_delay nor SHARED or \
         SEMAPHORE holders: leave them out"
    )]
    BesideClassic,
    /// The caller may not do it. Nothing was done.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The caller's quota does not allow it.
    #[error(transparent)]
    OverQuota(Box<OverQuota>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LocksError {
    /// Whether the credentials of the caller do not count any more.
    pub(super) fn is_of_credentials(&self) -> bool {
        match self {
            Self::Denied(denied) => !matches!(denied, Denied::NotPermitted(_)),
            _ => false,
        }
    }
}

impl From<OverQuota> for LocksError {
    fn from(over: OverQuota) -> Self {
        Self::OverQuota(Box::new(over))
    }
}

impl From<WrongOutcome> for LocksError {
    fn from(wrong: WrongOutcome) -> Self {
        Self::Store(wrong.into())
    }
}
