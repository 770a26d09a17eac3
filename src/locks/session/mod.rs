//! Sessions: one stream that carries all operations of a client.
//!
//! A KeepAlive stream is a session that only keeps leases. Both run the loop below.

mod driver;
mod operations;
mod positions;

use super::{
    AcquireAnswer, AcquireCall, Dispatch, Locks, LocksError,
    client::Client,
    keepalive::{self, StreamError},
};
use crate::{
    domain::{
        ids::{Call, LeaseId},
        limits::COMMANDS_BEGUN_AT_ONCE,
        name::LockName,
        outcome::{ReleaseOutcome, RenewOutcome},
    },
    store::Store,
    telemetry::metrics::StreamKind,
};
use driver::Driven;
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use operations::Session;
use positions::Positions;
use std::{pin::Pin, sync::Arc, task::Poll, time::Duration};
use tokio::time::Instant;
use tokio_stream::Stream;

/// The most messages, or finished operations, that one turn of the loop takes, so that beats, notices and answers get
/// their turn. Each one taken is handled in the same turn.
const AT_ONCE: usize = 256;

/// A message from the client. `E` is the error of a message that breaks a rule of the API.
#[derive(Clone, Debug)]
pub enum FromClient<E> {
    /// A message of the KeepAlive protocol.
    Keep(keepalive::FromClient),
    /// Begin this operation, and answer under this number.
    Begin(u64, Operation<E>),
    /// End the wait of the acquire with this number.
    Cancel(u64),
}

/// An operation.
#[derive(Clone, Debug)]
pub enum Operation<E> {
    /// Acquires a lock, and keeps its lease under this handle.
    Acquire {
        /// The lock.
        name: LockName,
        /// The call.
        call: AcquireCall,
        /// The client's number for the lease.
        handle: u32,
        /// Whether to revoke the lease when the stream ends, unless the server ended it.
        release_on_disconnect: bool,
    },
    /// Releases a lease.
    Release(LockName, LeaseId),
    /// Renews a lease.
    Renew {
        /// The lock.
        name: LockName,
        /// The lease.
        lease_id: LeaseId,
        /// The new TTL; `None` keeps the lease's own.
        ttl: Option<Duration>,
        /// When the message arrived.
        arrived: Instant,
    },
    /// An operation that breaks a rule of the API. It is answered with this error.
    Refused(E),
}

/// A message to the client.
#[derive(Clone, Debug)]
pub enum ToClient<E> {
    /// A message of the KeepAlive protocol.
    Kept(keepalive::ToClient),
    /// The answer to the operation of this number.
    Answer(u64, Answer<E>),
}

/// The answer to an operation.
#[derive(Clone, Debug)]
pub enum Answer<E> {
    /// An acquire is queued, with at most this many requests before it. Not its last answer.
    Waiting(u64),
    /// An acquire's outcome.
    Acquire {
        /// The lock.
        name: LockName,
        /// The call.
        call: Call,
        /// The outcome.
        answer: AcquireAnswer,
    },
    /// A release's outcome.
    Release(ReleaseOutcome),
    /// A renewal's outcome, and how long the operation was held before the store was asked.
    Renew(RenewOutcome, Duration),
    /// The operation has no outcome.
    Failed(LocksError),
    /// The operation broke a rule of the API.
    Refused(E),
}

impl<E> From<keepalive::ToClient> for ToClient<E> {
    fn from(message: keepalive::ToClient) -> Self {
        Self::Kept(message)
    }
}

/// Why a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError<E> {
    /// The service ended it.
    Stream(StreamError),
    /// The transport broke, or a message could not be decoded.
    Inbound(E),
}

#[expect(
    clippy::large_enum_variant,
    reason = "it lives for one turn of the loop, and boxed each message would be allocated"
)]
enum Event<E, D> {
    Notice,
    Message(Option<Result<FromClient<E>, E>>),
    Done(Option<D>),
    TimerDue,
    Renewing,
    Telling,
    Draining,
    OtherDriver,
    Gone,
}

/// Runs the operations that arrive on `inbound`, many at once, and keeps the leases of the session alive, until the
/// stream ends or the server has drained.
///
/// Dropping the stream means that the client is gone: operations in flight are dropped like calls, and the `Drop` of
/// the leases cleans up, whichever await was pending. While the client does not read, no beat is sent and leases end;
/// the module `driver` describes what happens to its calls.
pub fn session<S, E>(
    locks: Arc<Locks<S>>,
    dispatch: impl Dispatch,
    inbound: impl Stream<Item = Result<FromClient<E>, E>> + Send + 'static,
    drain_grace: Duration,
) -> impl Stream<Item = Result<ToClient<E>, SessionError<E>>> + Send + 'static
where
    S: Store,
    E: Send + 'static,
{
    open(StreamKind::Session, locks, dispatch, inbound, drain_grace)
}

fn open<S, E>(
    kind: StreamKind,
    locks: Arc<Locks<S>>,
    dispatch: impl Dispatch,
    inbound: impl Stream<Item = Result<FromClient<E>, E>> + Send + 'static,
    drain_grace: Duration,
) -> impl Stream<Item = Result<ToClient<E>, SessionError<E>>> + Send + 'static
where
    S: Store,
    E: Send + 'static,
{
    let client = Arc::new(Client::default());
    Driven::new(operate(kind, locks, dispatch, client.clone(), inbound, drain_grace), client)
}

/// The stream of a session, which a driver polls.
fn operate<S, E>(
    kind: StreamKind,
    locks: Arc<Locks<S>>,
    dispatch: impl Dispatch,
    client: Arc<Client>,
    inbound: impl Stream<Item = Result<FromClient<E>, E>> + Send + 'static,
    drain_grace: Duration,
) -> impl Stream<Item = Result<ToClient<E>, SessionError<E>>> + Send + 'static
where
    S: Store,
    E: Send + 'static,
{
    async_stream::stream! {
        let mut inbound = std::pin::pin!(inbound.fuse());
        let mut session = Session::open(locks.clone(), client.clone(), kind);
        let mut in_flight = FuturesUnordered::new();
        let draining = locks.going.draining.clone();
        let gone = locks.going.gone.clone();
        let mut told = false;
        let mut timer = std::pin::pin!(tokio::time::sleep_until(session.next_due()));
        let mut due = session.next_due();
        // Whether the last event was a message: then renewals come first. A client that sends without pause must not
        // lose leases.
        let mut heard = false;
        // Operations begun since other tasks had their turn.
        let mut under_way = 0;
        loop {
            if under_way >= COMMANDS_BEGUN_AT_ONCE {
                under_way = 0;
                tokio::task::yield_now().await;
            }
            while let Some(message) = session.next_message() {
                yield Ok(message);
            }
            if due != session.next_due() {
                due = session.next_due();
                timer.set(tokio::time::sleep_until(due));
            }
            let stalled = client.is_stalled();
            let event = tokio::select! {
                biased;
                () = gone.cancelled() => Event::Gone,
                () = changed(&client, stalled) => Event::OtherDriver,
                () = &mut timer, if !stalled => Event::TimerDue,
                () = session.keeping.inbox().ready() => Event::Notice,
                () = draining.cancelled(), if !told => Event::Draining,
                () = std::future::ready(()), if heard && session.keeping.is_renewing() => Event::Renewing,
                done = next_done(&mut in_flight, &session.positions) => Event::Done(done),
                message = inbound.next(), if !stalled => Event::Message(message),
                () = std::future::ready(()), if session.keeping.is_renewing() => Event::Renewing,
                () = std::future::ready(()), if !stalled && session.positions.is_looking() => Event::Telling,
            };
            heard = matches!(event, Event::Message(_));
            let result = match event {
                Event::OtherDriver => Ok(()),
                Event::Notice => { session.keeping.take_notices(); Ok(()) }
                Event::Renewing => { session.keeping.renew_some().await; Ok(()) }
                Event::TimerDue => { session.on_time(Instant::now()); due = Instant::now(); Ok(()) }
                Event::Telling => { session.tell_some(); Ok(()) }
                Event::Draining => {
                    told = true;
                    session.keeping.say(keepalive::ToClient::Draining(drain_grace));
                    Ok(())
                }
                Event::Done(mut next) => {
                    for more in (0..AT_ONCE).rev() {
                        let Some(done) = next else { break };
                        session.done(done).await;
                        next = if more > 0 { in_flight.next().now_or_never().flatten() } else { None };
                    }
                    session.positions.look_at_queued();
                    Ok(())
                }
                Event::Message(mut next) => {
                    let mut result = Ok(());
                    for more in (0..AT_ONCE).rev() {
                        let message = match next {
                            Some(Ok(message)) => message,
                            // The transport broke. For the leases that is the same as an orderly end.
                            Some(Err(error)) => { yield Err(SessionError::Inbound(error)); return; }
                            None => return,
                        };
                        // One message about kept leases may be much work, for which the store is awaited.
                        let goes_on = more > 0 && !matches!(message, FromClient::Keep(_));
                        match session.receive(message).await {
                            Ok(None) => {}
                            Ok(Some(begun)) => {
                                // Most operations on the memory store are done at the first poll.
                                let mut run = Box::pin(begun.run(locks.clone(), dispatch.clone()));
                                match run.as_mut().now_or_never() {
                                    Some(done) => session.done(done).await,
                                    None => {
                                        in_flight.push(run);
                                        under_way += 1;
                                    }
                                }
                            }
                            Err(error) => { result = Err(error); break; }
                        }
                        let goes_on = goes_on && under_way < COMMANDS_BEGUN_AT_ONCE;
                        let Some(message) = goes_on.then(|| inbound.next().now_or_never()).flatten() else { break };
                        next = message;
                    }
                    result
                }
                Event::Gone => Err(StreamError::Gone(LocksError::Draining)),
            };
            if let Err(error) = result {
                yield Err(SessionError::Stream(error));
                return;
            }
        }
    }
}

/// Keeps leases alive as requested on `inbound`: a session with no other operations.
pub fn keep_alive<S, E>(
    locks: Arc<Locks<S>>,
    dispatch: impl Dispatch,
    inbound: impl Stream<Item = Result<keepalive::FromClient, E>> + Send + 'static,
    drain_grace: Duration,
) -> impl Stream<Item = Result<keepalive::ToClient, SessionError<E>>> + Send + 'static
where
    S: Store,
    E: Send + 'static,
{
    let asked = inbound.map(|message| message.map(FromClient::Keep));
    open(StreamKind::KeepAlive, locks, dispatch, asked, drain_grace).filter_map(|message| {
        std::future::ready(match message {
            Ok(ToClient::Kept(message)) => Some(Ok(message)),
            // No operation was begun, so none is answered.
            Ok(ToClient::Answer(..)) => None,
            Err(error) => Some(Err(error)),
        })
    })
}

/// Resolves when the client stops reading, or reads again. The driver that notes it polls next, so no wake-up is
/// needed.
async fn changed(client: &Client, stalled: bool) {
    std::future::poll_fn(|_| if client.is_stalled() == stalled { Poll::Pending } else { Poll::Ready(()) }).await;
}

/// The next finished operation, or `None` when calls have been queued meanwhile. Cancel-safe.
async fn next_done<F: Future>(in_flight: &mut FuturesUnordered<F>, positions: &Positions) -> Option<F::Output> {
    std::future::poll_fn(|context| match Pin::new(&mut *in_flight).poll_next(context) {
        Poll::Ready(Some(done)) => Poll::Ready(Some(done)),
        // No operation is in flight. The loop pushes the next one and polls this again.
        Poll::Ready(None) | Poll::Pending if positions.any_queued() => Poll::Ready(None),
        Poll::Ready(None) | Poll::Pending => Poll::Pending,
    })
    .await
}
