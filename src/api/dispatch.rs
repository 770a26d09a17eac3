//! The one way in: every operation of a client, by a unary call or on a session, passes through
//! [`Caller::dispatch`](Dispatch::dispatch).

use crate::{
    api::{Faults, guard::Visitor, peer::Peer},
    domain::{
        limits::PERMISSION_CHECK_PERIOD,
        name::{Identity, LockName},
    },
    locks::{Dispatch, LocksError, Permission, Target},
    telemetry::{
        metrics::{CallMetrics, Label, OperationKind},
        traces::{Spanned, Traces, failed},
    },
};
use std::{fmt, future::pending, pin::Pin, sync::Arc, time::Duration};
use tokio::time::sleep;

/// The client that an operation came from.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// Where its connection comes from, if that is known.
    pub(super) peer: Option<Peer>,
    pub(super) metrics: Arc<CallMetrics>,
    pub(super) traces: Traces,
    pub(super) faults: Option<Arc<Faults>>,
    /// Who it is, if an access file restricts who may do what.
    pub(super) visitor: Option<Visitor>,
}

impl Caller {
    /// Who it is, where that was verified.
    pub(super) fn identity(&self) -> Option<Identity> {
        self.visitor.as_ref()?.identity().map(Identity::new)
    }

    /// What the client may do on a stream that opens now, if that is restricted.
    pub(super) fn opens_stream(&self) -> Result<Option<Arc<dyn Permission>>, LocksError> {
        let opened = self.visitor.as_ref().map(Visitor::opens_stream).transpose()?;
        Ok(opened.map(|permission| Arc::new(permission) as Arc<dyn Permission>))
    }

    /// Counts a stream on which the client watches, until the value is dropped.
    pub(super) fn watches(&self) -> Result<impl Send + use<>, LocksError> {
        self.visitor.as_ref().map(Visitor::streams).transpose()
    }

    /// Resolves when the caller may not go on with an operation.
    pub(super) async fn stopped(&self, operation: OperationKind, target: Target<'_>) -> LocksError {
        let Some(visitor) = &self.visitor else { return pending().await };
        loop {
            sleep(PERMISSION_CHECK_PERIOD).await;
            if let Err(error) = visitor.may_still(operation, target) {
                return error;
            }
        }
    }
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
    async fn dispatch<T: Send>(
        &self,
        operation: OperationKind,
        target: Target<'_>,
        work: Pin<&mut (impl Future<Output = Result<T, LocksError>> + Send)>,
    ) -> Result<T, LocksError> {
        let name = target.lock_name();
        let span = self.traces.operation(operation.text(), name.map(LockName::as_str));
        // Before the work is polled, so that nothing of it has begun.
        let outcome = match self.visitor.as_ref().map_or(Ok(None), |visitor| visitor.may(operation, target)) {
            Ok(in_use) => {
                let outcome = Spanned::new(span.clone(), work).await;
                // Until now, and no longer if the work is dropped.
                drop(in_use);
                outcome
            }
            Err(denied) => Err(denied),
        };
        self.metrics.operation(operation, outcome.is_ok());
        if outcome.is_err() {
            failed(span.as_ref(), "error");
        }
        drop(span);
        let (text, lock_name) = (operation.text(), name.map(LockName::as_str));
        match &outcome {
            Ok(_) => tracing::debug!(peer = %self, operation = text, lock_name, "operation carried out"),
            Err(error) => tracing::debug!(peer = %self, operation = text, lock_name, %error, "operation failed"),
        }
        if let Some(faults) = &self.faults
            && outcome.is_ok()
        {
            faults.reply(operation).await;
        }
        outcome
    }

    async fn while_permitted<T: Send>(
        &self,
        wait: Duration,
        name: &LockName,
        mut work: Pin<&mut (impl Future<Output = Result<T, LocksError>> + Send)>,
    ) -> Result<T, LocksError> {
        let Some(visitor) = self.visitor.as_ref().filter(|_| !wait.is_zero()) else { return work.await };
        let _in_use = visitor.waits()?;
        tokio::select! {
            biased;
            outcome = &mut work => outcome,
            stopped = self.stopped(OperationKind::Acquire, Target::Lock(name)) => Err(stopped),
        }
    }
}
