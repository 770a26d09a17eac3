//! A KeepAlive stream. It only keeps leases, so a renewal passes nothing of what a session has for its operations.

use super::{FromClient, Keeping, SessionError, StreamError, ToClient};
use crate::{
    locks::{Locks, LocksError, Permission},
    store::Store,
    telemetry::metrics::StreamKind,
};
use futures_util::StreamExt;
use std::{future::ready, pin::pin, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};
use tokio_stream::Stream;

enum Event<E> {
    Notice,
    Message(Option<Result<FromClient, E>>),
    TimerDue,
    Renewing,
    Draining,
    Gone,
}

/// Keeps leases alive as requested on `inbound`, until the stream ends, the server has drained, or the client loses its
/// permission.
///
/// Dropping the stream means that the client is gone: the `Drop` of the leases cleans up, whichever await was pending.
/// While the client does not read, the transport does not poll, so no beat is sent and leases end.
pub fn keep_alive<S, E>(
    locks: Arc<Locks<S>>,
    permission: Option<Arc<dyn Permission>>,
    inbound: impl Stream<Item = Result<FromClient, E>> + Send + 'static,
    drain_grace: Duration,
) -> impl Stream<Item = Result<ToClient, SessionError<E>>> + Send + 'static
where
    S: Store,
    E: Send + 'static,
{
    async_stream::stream! {
        let mut inbound = pin!(inbound.fuse());
        let mut keeping = Keeping::<S, ToClient>::open(&locks, StreamKind::KeepAlive, permission);
        let mut due = keeping.next_due();
        let mut timer = pin!(sleep_until(due));
        // Made once: a new one in each turn would register with its token, and leave it again.
        let (mut gone, mut draining) = (pin!(locks.going.gone.cancelled()), pin!(locks.going.draining.cancelled()));
        // `heard`: the last event was a message. Renewals come next, so that a flood of messages costs no lease.
        let (mut drain_sent, mut heard) = (false, false);
        loop {
            while let Some(message) = keeping.outgoing.pop_front() {
                yield Ok(message);
            }
            if due != keeping.next_due() {
                due = keeping.next_due();
                timer.set(sleep_until(due));
            }
            let event = tokio::select! {
                biased;
                () = &mut gone => Event::Gone,
                () = &mut timer => Event::TimerDue,
                () = keeping.inbox().ready() => Event::Notice,
                () = &mut draining, if !drain_sent => Event::Draining,
                () = ready(()), if heard && keeping.is_renewing() => Event::Renewing,
                message = inbound.next() => Event::Message(message),
                () = ready(()), if keeping.is_renewing() => Event::Renewing,
            };
            heard = matches!(event, Event::Message(_));
            let received = match event {
                Event::Notice => { keeping.take_notices(); Ok(()) }
                Event::Renewing => { keeping.renew_some().await; Ok(()) }
                Event::TimerDue => keeping.on_time(Instant::now()).map_err(|error| SessionError::Stream(error.into())),
                Event::Draining => {
                    drain_sent = true;
                    keeping.say(ToClient::Draining(drain_grace));
                    Ok(())
                }
                Event::Message(Some(Ok(message))) => keeping.receive(message).await.map_err(SessionError::Stream),
                // A transport that broke is for the leases the same as an orderly end.
                Event::Message(Some(Err(error))) => Err(SessionError::Inbound(error)),
                Event::Message(None) => return,
                Event::Gone => Err(SessionError::Stream(StreamError::Gone(LocksError::Draining))),
            };
            if let Err(error) = received {
                yield Err(error);
                return;
            }
        }
    }
}
