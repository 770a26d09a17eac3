//! The one way in: every operation of a client, by a unary call or on a session, passes through
//! [`Caller::dispatch`](Dispatch::dispatch).

use crate::{
    api::peer::Peer,
    domain::name::LockName,
    locks::{Dispatch, LocksError},
};
use futures_util::FutureExt;
use std::fmt;
use tonic::Request;

/// The client that an operation came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    /// Where its connection comes from, if that is known.
    peer: Option<Peer>,
}

impl Caller {
    /// The caller of an RPC.
    pub(super) fn of<T>(request: &Request<T>) -> Self {
        Self { peer: request.extensions().get().copied() }
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
    fn dispatch<T: Send>(
        &self,
        operation: &'static str,
        name: Option<&LockName>,
        work: impl Future<Output = Result<T, LocksError>> + Send,
    ) -> impl Future<Output = Result<T, LocksError>> + Send {
        // Combinators, because an async block would hold the operation's future twice.
        work.inspect(move |outcome| {
            let lock_name = name.map(LockName::as_str);
            match outcome {
                Ok(_) => tracing::debug!(peer = %self, operation, lock_name, "operation carried out"),
                Err(error) => tracing::debug!(peer = %self, operation, lock_name, %error, "operation failed"),
            }
        })
    }
}
