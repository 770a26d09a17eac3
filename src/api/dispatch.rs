//! The one way in: every operation of a client, by a unary call or on a session, passes through
//! [`Caller::dispatch`](Dispatch::dispatch).

use crate::{
    api::{Faults, peer::Peer},
    domain::name::LockName,
    locks::{Dispatch, LocksError},
    telemetry::{
        metrics::{CallMetrics, Label, OperationKind},
        traces::{Spanned, Traces, failed},
    },
};
use futures_util::{FutureExt, future::Either};
use std::{fmt, sync::Arc};

/// The client that an operation came from.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// Where its connection comes from, if that is known.
    pub(super) peer: Option<Peer>,
    pub(super) metrics: Arc<CallMetrics>,
    pub(super) traces: Traces,
    pub(super) faults: Option<Arc<Faults>>,
}

impl fmt::Display for Caller {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.peer {
            Some(peer) => peer.fmt(out),
            None => out.write_str("unknown"),
        }
    }
}

impl Dispatch for Caller {
    fn dispatch<T: Send>(
        &self,
        operation: OperationKind,
        name: Option<&LockName>,
        work: impl Future<Output = Result<T, LocksError>> + Send,
    ) -> impl Future<Output = Result<T, LocksError>> + Send {
        // Combinators, because an async block would hold the operation's future twice.
        let span = self.traces.operation(operation.text(), name.map(LockName::as_str));
        let failure = span.clone();
        let work = work.inspect(move |outcome| {
            self.metrics.operation(operation, outcome.is_ok());
            if outcome.is_err() {
                failed(failure.as_ref(), "error");
            }
            let (operation, lock_name) = (operation.text(), name.map(LockName::as_str));
            match outcome {
                Ok(_) => tracing::debug!(peer = %self, operation, lock_name, "operation carried out"),
                Err(error) => tracing::debug!(peer = %self, operation, lock_name, %error, "operation failed"),
            }
        });
        let work = Spanned::new(span, work);
        match &self.faults {
            None => Either::Left(work),
            // In a box, so that a future without faults is not as large as this one.
            Some(faults) => Either::Right(Box::pin(faults.reply(operation, work))),
        }
    }
}
