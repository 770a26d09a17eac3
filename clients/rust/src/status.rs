//! The status of a lock, and why it was lost.

use crate::clock::Moment;
use crate::facts;
use crate::v1;

/// The status of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// Held, and renewals arrive.
    Held,
    /// Still held, but renewals fail. Goes back to `Held` when one succeeds.
    AtRisk {
        /// When the lease ends if no renewal succeeds.
        valid_until: Moment,
    },
    /// Lost. This is final.
    Lost(LockLost),
}

/// A lock is no longer held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockLost {
    /// The lock's name.
    pub name: String,
    /// The fencing token of the lease that ended.
    pub token: u64,
    /// The cause.
    pub cause: LossCause,
    /// The fencing token of the lease that holds the lock now, if the server reported it.
    pub successor_token: Option<u64>,
}

/// Why a lock is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossCause {
    /// The validity ended by the local clock before a renewal succeeded: the server was unreachable, or this process
    /// was paused for too long.
    Silence,
    /// The lock was held for as long as [`max_hold`](crate::Acquire::max_hold) allows. No renewal extends it beyond.
    MaxHold,
    /// The server reports that the lease expired.
    Expired,
    /// The server revoked the lease, for example because an operator forced its release.
    Revoked,
    /// The server reports that another lease of the lock was granted since.
    Superseded,
    /// The server does not know the lease: it ended longer ago than the server remembers.
    Unknown,
    /// Released by this process.
    Released,
    /// Released by another process, which knows the lease id.
    ReleasedElsewhere,
    /// This process stopped renewing the lease ([`Lock::into_lease`](crate::Lock::into_lease)).
    Detached,
    /// The lock name or the lease id breaks the rules of the API ([`Client::keep`](crate::Client::keep)).
    Invalid,
}

/// The part of [`LockLost`] that the lease itself does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) cause: LossCause,
    pub(crate) successor_token: Option<u64>,
}

impl Loss {
    pub(crate) fn new(cause: LossCause) -> Self {
        Self { cause, successor_token: None }
    }

    /// From the server's report of the end of a lease.
    pub(crate) fn from_server(end: v1::LeaseEnd, successor_token: u64) -> Self {
        let cause = match end {
            v1::LeaseEnd::Released => LossCause::ReleasedElsewhere,
            v1::LeaseEnd::Expired => LossCause::Expired,
            v1::LeaseEnd::Revoked => LossCause::Revoked,
            v1::LeaseEnd::Superseded => LossCause::Superseded,
            v1::LeaseEnd::Unspecified | v1::LeaseEnd::Unknown => LossCause::Unknown,
        };
        Self { cause, successor_token: (successor_token != 0).then_some(successor_token) }
    }
}

impl std::fmt::Display for LockLost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why = match self.cause {
            LossCause::Silence => facts::LOST_SILENCE,
            LossCause::MaxHold => facts::LOST_MAX_HOLD,
            LossCause::Expired => facts::LOST_EXPIRED,
            LossCause::Revoked => facts::LOST_REVOKED,
            LossCause::Superseded => facts::LOST_SUPERSEDED,
            LossCause::Unknown => facts::LOST_UNKNOWN,
            LossCause::ReleasedElsewhere => facts::LOST_RELEASED,
            LossCause::Released => "this process released it",
            LossCause::Detached => "its lease was handed over",
            LossCause::Invalid => "its name or its lease id is malformed",
        };
        let state = if self.cause == LossCause::Released { "not held" } else { "lost" };
        write!(f, "{} (token {}) is {state}: {why}", self.name, self.token)?;
        match self.successor_token {
            Some(token) => write!(f, "; token {token} holds it now"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for LockLost {}
