//! The interface through which operations of a session pass the API.

use super::LocksError;
use crate::{domain::name::LockName, telemetry::metrics::OperationKind};

/// The API's one way in. A session passes each of its operations through it, as the API does with each unary call.
pub trait Dispatch: Clone + Send + Sync + 'static {
    /// Carries out the work of an operation, on this lock if on one. Dropped, it drops the work.
    fn dispatch<T: Send>(
        &self,
        operation: OperationKind,
        name: Option<&LockName>,
        work: impl Future<Output = Result<T, LocksError>> + Send,
    ) -> impl Future<Output = Result<T, LocksError>> + Send;
}

/// No API: the work is carried out as it is.
impl Dispatch for () {
    fn dispatch<T: Send>(
        &self,
        _: OperationKind,
        _: Option<&LockName>,
        work: impl Future<Output = Result<T, LocksError>> + Send,
    ) -> impl Future<Output = Result<T, LocksError>> + Send {
        work
    }
}
