//! The input of one turn of a session's loop: finished operations, or messages that have arrived.

use super::{
    FromClient,
    operations::{Begun, Done, Session},
    positions::Positions,
};
use crate::{domain::limits::COMMANDS_BEGUN_AT_ONCE, locks::keepalive::SessionError, store::Store};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use std::{pin::Pin, task::Poll};
use tokio_stream::Stream;

/// The most messages, or finished operations, that one turn of the loop takes, so that beats, notices and answers get
/// their turn. Each one taken is handled in the same turn.
const AT_ONCE: usize = 256;

/// Operations in flight.
pub(super) struct UnderWay<F> {
    in_flight: FuturesUnordered<F>,
    /// How many were begun since other tasks had their turn.
    begun: usize,
}

impl<F> Default for UnderWay<F> {
    fn default() -> Self {
        Self { in_flight: FuturesUnordered::new(), begun: 0 }
    }
}

impl<F: Future<Output = Done>> UnderWay<F> {
    /// Gives other tasks their turn if many operations were begun.
    pub(super) async fn let_others_run(&mut self) {
        if self.begun >= COMMANDS_BEGUN_AT_ONCE {
            self.begun = 0;
            tokio::task::yield_now().await;
        }
    }

    /// The next finished operation, or `None` when calls have been queued meanwhile. Cancel-safe.
    pub(super) async fn next_done(&mut self, positions: &Positions) -> Option<Done> {
        std::future::poll_fn(|context| match Pin::new(&mut self.in_flight).poll_next(context) {
            Poll::Ready(Some(done)) => Poll::Ready(Some(done)),
            // No operation is in flight. The loop pushes the next one and polls this again.
            Poll::Ready(None) | Poll::Pending if positions.any_queued() => Poll::Ready(None),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        })
        .await
    }
}

/// Takes a finished operation, and those that are finished too.
pub(super) async fn finish<S: Store, E, F: Future<Output = Done>>(
    session: &mut Session<S, E>,
    under_way: &mut UnderWay<F>,
    mut next: Option<Done>,
) {
    for more in (0..AT_ONCE).rev() {
        let Some(done) = next else { break };
        session.done(done).await;
        next = if more > 0 { under_way.in_flight.next().now_or_never().flatten() } else { None };
    }
    session.positions.look_at_queued();
}

/// Takes a message, and those that have arrived behind it. Returns false if the client has ended the stream. `run` runs
/// an operation.
pub(super) async fn take<S: Store, E, F: Future<Output = Done> + Unpin>(
    session: &mut Session<S, E>,
    under_way: &mut UnderWay<F>,
    mut inbound: Pin<&mut impl Stream<Item = Result<FromClient<E>, E>>>,
    mut next: Option<Result<FromClient<E>, E>>,
    run: &mut impl FnMut(Begun) -> F,
) -> Result<bool, SessionError<E>> {
    for more in (0..AT_ONCE).rev() {
        // A transport that broke is for the leases the same as an orderly end.
        let Some(message) = next.transpose().map_err(SessionError::Inbound)? else { return Ok(false) };
        // One message about kept leases may be much work, for which the store is awaited.
        let is_last = more == 0 || matches!(message, FromClient::Keep(_));
        if let Some(begun) = session.receive(message).await.map_err(SessionError::Stream)? {
            // Most operations on the memory store are done at the first poll.
            let mut running = run(begun);
            match (&mut running).now_or_never() {
                Some(done) => session.done(done).await,
                None => {
                    under_way.in_flight.push(running);
                    under_way.begun += 1;
                }
            }
        }
        if is_last || under_way.begun >= COMMANDS_BEGUN_AT_ONCE {
            break;
        }
        let Some(message) = inbound.next().now_or_never() else { break };
        next = message;
    }
    Ok(true)
}
