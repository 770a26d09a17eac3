//! The interface through which operations of a session pass the API.

use super::LocksError;
use crate::{domain::name::LockName, telemetry::metrics::OperationKind};
use std::{pin::Pin, time::Duration};

/// What an operation is about.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// A lock.
    Lock(&'a LockName),
    /// All locks whose names begin so.
    Prefix(&'a str),
    /// The server, or a stream on which each operation has its own target.
    Server,
}

impl<'a> Target<'a> {
    /// The lock, if it is about one.
    pub fn lock_name(self) -> Option<&'a LockName> {
        match self {
            Self::Lock(name) => Some(name),
            Self::Prefix(_) | Self::Server => None,
        }
    }
}

/// The API's one way in. A session passes each of its operations through it, as the API does with each unary call.
pub trait Dispatch: Clone + Send + Sync + 'static {
    /// Carries out the work of an operation, unless its caller may not do that. The work stays where its caller pinned
    /// it: to move its future is to copy all that it will ever need.
    fn dispatch<T: Send>(
        &self,
        operation: OperationKind,
        target: Target<'_>,
        work: Pin<&mut (impl Future<Output = Result<T, LocksError>> + Send)>,
    ) -> impl Future<Output = Result<T, LocksError>> + Send;

    /// An acquire that may wait for so long, and that ends when its caller may not acquire the lock any more. It is
    /// then cleaned up like one whose client gave up.
    fn while_permitted<T: Send>(
        &self,
        wait: Duration,
        name: &LockName,
        work: Pin<&mut (impl Future<Output = Result<T, LocksError>> + Send)>,
    ) -> impl Future<Output = Result<T, LocksError>> + Send;
}

/// What the client of a stream may do. It may change while the stream is open.
pub trait Permission: Send + Sync {
    /// Whether the stream may stay open.
    fn stay_open(&self) -> Result<(), LocksError>;

    /// Whether the client may keep a lease of this lock.
    fn may_keep(&self, name: &LockName) -> bool;

    /// The stream keeps so many leases now.
    fn keeps(&self, leases: usize);
}

/// No API: the work is carried out as it is.
impl Dispatch for () {
    async fn dispatch<T: Send>(
        &self,
        _: OperationKind,
        _: Target<'_>,
        work: Pin<&mut (impl Future<Output = Result<T, LocksError>> + Send)>,
    ) -> Result<T, LocksError> {
        work.await
    }

    async fn while_permitted<T: Send>(
        &self,
        _: Duration,
        _: &LockName,
        work: Pin<&mut (impl Future<Output = Result<T, LocksError>> + Send)>,
    ) -> Result<T, LocksError> {
        work.await
    }
}
