//! Guards for stores that a Fencepost lock protects.
//!
//! A process can be paused between the check of its lock and its write. Its lease expires, another holder writes, and
//! the late write comes after that. A guard is the store's own check: it keeps the highest token of each lock, and
//! refuses the writes of a holder whose token is lower. [`StaleToken`] says both tokens.
//!
//! In the transaction of the write, raise the fence **first**, then read, then write:
//!
#![cfg_attr(feature = "tokio-postgres", doc = "```no_run")]
#![cfg_attr(not(feature = "tokio-postgres"), doc = "```ignore")]
//! # async fn example(lock: fencepost_client::Lock, mut database: tokio_postgres::Client)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! use fencepost_guards::postgres as guard;
//!
//! let transaction = database.transaction().await?;
//! guard::raise(&transaction, &lock).await?;
//! transaction.execute("UPDATE orders SET state = 'shipped' WHERE id = 42", &[]).await?;
//! transaction.commit().await?;
//! # Ok(()) }
//! ```
//!
//! A holder that reads first may read what an earlier holder is about to change. After the fence is raised, no earlier
//! holder can change anything.
//!
//! The holder of a shared lock is a reader, and there may be several. A reader calls `raise_shared` once after the
//! grant, which is a transaction of its own. Then each transaction of its work begins with `check_shared`. What it
//! reads there stays so: no earlier writer gets through, and a later one waits for the transaction. There are two
//! steps, because readers would wait for one another if they raised within their work.
//!
//! The holders of a semaphore work side by side. One permit has a fence of its own for each slot
//! ([`Grant::fence_name`]); several permits have none, and are refused.
//!
//! Each store has a module behind a feature that is named after its driver: `tokio-postgres`, `mysql_async`, `rusqlite`
//! and `redis`.

#[cfg(feature = "mysql_async")]
pub mod mysql;
#[cfg(feature = "tokio-postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "rusqlite")]
pub mod sqlite;

use fencepost_client::{Held, Lock, bounds};
use std::borrow::Cow;

/// The example of the README compiles.
#[cfg(all(doctest, feature = "tokio-postgres"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// A grant of a lock, as a guard compares it. A [`Lock`] and a [`Held`] convert to it; a process that writes on behalf
/// of the holder makes it from what the holder passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant<'a> {
    /// The lock's name.
    pub lock_name: &'a str,
    /// The fencing token: at most [`TOKEN_MAX`](bounds::TOKEN_MAX).
    pub token: u64,
    /// The public id of the grant. If a lock server that lost its data grants a token twice, the store accepts one of
    /// the two holders only.
    pub grant_id: &'a str,
    /// How many permits of a semaphore it has; 0 if the lock is held as none.
    pub permits: u32,
    /// The slot, if it has one permit of a semaphore.
    pub slot: Option<u32>,
}

impl<'a> From<&'a Held> for Grant<'a> {
    fn from(held: &'a Held) -> Self {
        Self {
            lock_name: held.name(),
            token: held.token(),
            grant_id: held.grant_id(),
            permits: held.permits(),
            slot: held.slot(),
        }
    }
}

impl<'a> From<&'a Lock> for Grant<'a> {
    fn from(lock: &'a Lock) -> Self {
        let held: &Held = lock;
        held.into()
    }
}

impl<'a> Grant<'a> {
    /// The name of the fence that the guards raise for it: that of the lock, or `NAME#SLOT` for one permit of a
    /// semaphore. The holders of a semaphore work side by side, so only the tokens of one slot are in an order.
    pub fn fence_name(&self) -> Result<Cow<'a, str>, NoFence> {
        let name = self.fence_key(self.lock_name)?;
        if self.slot.is_some() && name.len() > bounds::NAME_BYTES_MAX {
            return Err(NoFence::TooLong(name.into_owned()));
        }
        Ok(name)
    }

    /// The key of the fence in Redis: `key`, or `KEY#SLOT` for one permit of a semaphore.
    pub fn fence_key<'k>(&self, key: &'k str) -> Result<Cow<'k, str>, NoFence> {
        match (self.slot, self.permits) {
            (Some(slot), _) => Ok(format!("{key}#{slot}").into()),
            (None, 0) => Ok(key.into()),
            (None, permits) => Err(NoFence::SeveralPermits { lock_name: self.lock_name.to_owned(), permits }),
        }
    }

    /// Refuses a grant of a semaphore, in which there are no readers.
    fn check_reader(&self) -> Result<(), NoFence> {
        self.fence_key(self.lock_name)?;
        let is_semaphore = self.slot.is_some();
        if is_semaphore { Err(NoFence::NotShared(self.lock_name.to_owned())) } else { Ok(()) }
    }

    /// The token as stores keep it. Redis compares tokens as floating-point numbers, so a larger one is no token.
    fn stored_token<E>(&self) -> Result<i64, RaiseError<E>> {
        let token = i64::try_from(self.token).ok().filter(|_| self.token <= bounds::TOKEN_MAX);
        token.ok_or(RaiseError::NotAToken(self.token))
    }

    /// Why a store whose highest token is `newest`, if it has one, refuses a reader.
    fn refused<E>(&self, newest: Option<i64>) -> RaiseError<E> {
        match newest {
            Some(newest) if newest.unsigned_abs() >= self.token => self.stale(newest).into(),
            _ => RaiseError::NotRaised { lock_name: self.lock_name.to_owned(), token: self.token },
        }
    }

    fn stale(&self, newest: i64) -> StaleToken {
        StaleToken { lock_name: self.lock_name.to_owned(), token: self.token, newest: newest.unsigned_abs() }
    }
}

/// The store has seen a newer holder of the lock. Roll the transaction back: nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("token {token} of {lock_name} is stale: the store has seen {newest}")]
pub struct StaleToken {
    /// The lock's name.
    pub lock_name: String,
    /// The holder's token.
    pub token: u64,
    /// The highest token that the store has seen. It equals `token` if another grant has it.
    pub newest: u64,
}

/// Why a grant of a semaphore has no fence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoFence {
    /// It has several permits, and so no slot.
    #[error(
        "{lock_name} is held with {permits} permits of a semaphore, so it has no slot, and a store cannot order its \
         token: take one permit each, or check the token with CheckToken right before the write"
    )]
    SeveralPermits {
        /// The lock's name.
        lock_name: String,
        /// How many permits it has.
        permits: u32,
    },
    /// `raise_shared` or `check_shared` was called for the lock of this name.
    #[error("{0} is held as a semaphore, not as a shared lock: raise its fence in the transaction of the write")]
    NotShared(String),
    /// The name of the fence does not fit into the table.
    #[error("the fence {0} is longer than {max} bytes: give the lock a shorter name", max = bounds::NAME_BYTES_MAX)]
    TooLong(String),
}

/// Why a fence was not raised, or why a reader may not work. Roll the transaction back.
#[derive(Debug, thiserror::Error)]
pub enum RaiseError<E> {
    /// A newer holder has the lock.
    #[error(transparent)]
    Stale(#[from] StaleToken),
    /// A grant of a semaphore has no fence for this step.
    #[error(transparent)]
    NoFence(#[from] NoFence),
    /// A reader called `check_shared`, but not `raise_shared` before.
    #[error("token {token} of {lock_name} was not raised: call raise_shared once after the grant")]
    NotRaised {
        /// The lock's name.
        lock_name: String,
        /// The holder's token.
        token: u64,
    },
    /// The number is above [`TOKEN_MAX`](bounds::TOKEN_MAX).
    #[error("{0} is no token: tokens are below 2^53")]
    NotAToken(u64),
    /// The store failed.
    #[error("the fence was not raised")]
    Store(#[source] E),
}
