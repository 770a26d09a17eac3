//! Sessions: one stream that carries all that a client does with locks.
//!
//! A KeepAlive stream is a session on which nothing is asked but to keep leases; both run the one loop below.

mod driver;
mod operations;
mod waits;

use super::{
    AcquireAnswer, AcquireCall, Locks, LocksError,
    client::Client,
    keepalive::{self, StreamError},
};
use crate::{
    domain::{
        ids::{Call, LeaseId},
        name::LockName,
        outcome::{ReleaseOutcome, RenewOutcome},
    },
    store::LockStore,
};
use driver::Driven;
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use operations::Session;
use std::{pin::Pin, sync::Arc, task::Poll, time::Duration};
use tokio::time::Instant;
use tokio_stream::Stream;
use waits::Waits;

/// Messages, or operations that are done, that are taken in one go: what is ready at once is answered at once, and no
/// longer than this before beats, notices and answers have their turn. What is taken out is dealt with: none is taken
/// beyond the last.
const AT_ONCE: usize = 256;

/// What the client says. What breaks a rule of the messages' own is an `E`.
#[derive(Clone, Debug)]
pub enum FromClient<E> {
    /// As on a KeepAlive stream.
    Keep(keepalive::FromClient),
    /// Do this, and answer under this number.
    Begin(u64, Operation<E>),
    /// The acquire of this number is to wait no longer.
    Cancel(u64),
}

/// What a client wants done.
#[derive(Clone, Debug)]
pub enum Operation<E> {
    /// To take a lock, and to have its lease kept under this handle.
    Acquire {
        /// The lock.
        name: LockName,
        /// What is wanted.
        call: AcquireCall,
        /// The client's number for the lease.
        handle: u32,
        /// Whether to take it back when the stream ends without the server's doing.
        release_on_disconnect: bool,
    },
    /// To give a lease back.
    Release(LockName, LeaseId),
    /// To set a lease's TTL.
    Renew {
        /// The lock.
        name: LockName,
        /// The lease.
        lease_id: LeaseId,
        /// The new TTL, if not the lease's own.
        ttl: Option<Duration>,
        /// When this was heard.
        arrived: Instant,
    },
    /// Something that breaks a rule: it is answered so.
    Refused(E),
}

/// What the server says.
#[derive(Clone, Debug)]
pub enum ToClient<E> {
    /// As on a KeepAlive stream.
    Kept(keepalive::ToClient),
    /// The answer to the operation of this number.
    Answer(u64, Answer<E>),
}

/// What an operation comes to.
#[derive(Clone, Debug)]
pub enum Answer<E> {
    /// An acquire waits, with so many before it at most. Not its last answer.
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
    /// A renewal's, and how long it was held before the store was asked.
    Renew(RenewOutcome, Duration),
    /// It has none.
    Failed(LocksError),
    /// It broke a rule.
    Refused(E),
}

impl<E> From<keepalive::ToClient> for ToClient<E> {
    fn from(message: keepalive::ToClient) -> Self {
        Self::Kept(message)
    }
}

/// Why a stream ended, the transport's reasons included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError<E> {
    /// The service's reason.
    Stream(StreamError),
    /// The transport's, or that of whoever decoded the message.
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

/// Does what the client asks on `inbound`, many things at once, and keeps its leases alive, until it ends or the server
/// goes away.
///
/// Dropping the stream is the sign that the client is gone: what is under way is dropped like a call is, and the
/// leases' own `Drop` does what is to be done then, whichever await it was dropped in. While the client does not read,
/// no beat is sent, and leases end; the module `driver` says what happens to its calls.
pub fn session<S, E>(
    locks: Arc<Locks<S>>,
    inbound: impl Stream<Item = Result<FromClient<E>, E>> + Send + 'static,
    drain_grace: Duration,
) -> impl Stream<Item = Result<ToClient<E>, SessionError<E>>> + Send + 'static
where
    S: LockStore,
    E: Send + 'static,
{
    let client = Arc::new(Client::default());
    Driven::new(operate(locks, client.clone(), inbound, drain_grace), client)
}

/// A session, for whoever drives it.
fn operate<S, E>(
    locks: Arc<Locks<S>>,
    client: Arc<Client>,
    inbound: impl Stream<Item = Result<FromClient<E>, E>> + Send + 'static,
    drain_grace: Duration,
) -> impl Stream<Item = Result<ToClient<E>, SessionError<E>>> + Send + 'static
where
    S: LockStore,
    E: Send + 'static,
{
    async_stream::stream! {
        let mut inbound = std::pin::pin!(inbound.fuse());
        let mut session = Session::open(locks.clone(), client.clone());
        let mut under_way = FuturesUnordered::new();
        let draining = locks.going.draining.clone();
        let gone = locks.going.gone.clone();
        let mut told = false;
        let mut timer = std::pin::pin!(tokio::time::sleep_until(session.next_due()));
        let mut due = session.next_due();
        // Whether a message was the last thing: then it is the renewals' turn. A client that talks without end is no
        // reason to lose leases.
        let mut heard = false;
        loop {
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
                done = next_done(&mut under_way, &session.waits) => Event::Done(done),
                message = inbound.next(), if !stalled => Event::Message(message),
                () = std::future::ready(()), if session.keeping.is_renewing() => Event::Renewing,
                () = std::future::ready(()), if !stalled && session.waits.is_looking() => Event::Telling,
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
                        next = if more > 0 { under_way.next().now_or_never().flatten() } else { None };
                    }
                    session.waits.note_those_in_line();
                    Ok(())
                }
                Event::Message(mut next) => {
                    let mut result = Ok(());
                    for more in (0..AT_ONCE).rev() {
                        let message = match next {
                            Some(Ok(message)) => message,
                            // The transport broke: the client did not end the stream in order, which is the same to its
                            // leases.
                            Some(Err(error)) => { yield Err(SessionError::Inbound(error)); return; }
                            None => return,
                        };
                        // Of kept leases one message may be much work, for which the store is awaited.
                        let goes_on = more > 0 && !matches!(message, FromClient::Keep(_));
                        match session.receive(message).await {
                            Ok(None) => {}
                            Ok(Some(begun)) => {
                                // Most of what the store has to hand is done as soon as it is begun. What is not is
                                // polled once more here.
                                let mut run = Box::pin(begun.run(locks.clone()));
                                match run.as_mut().now_or_never() {
                                    Some(done) => session.done(done).await,
                                    None => under_way.push(run),
                                }
                            }
                            Err(error) => { result = Err(error); break; }
                        }
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

/// Keeps leases alive as the client asks on `inbound`: a session on which nothing else is asked.
pub fn keep_alive<S, E>(
    locks: Arc<Locks<S>>,
    inbound: impl Stream<Item = Result<keepalive::FromClient, E>> + Send + 'static,
    drain_grace: Duration,
) -> impl Stream<Item = Result<keepalive::ToClient, SessionError<E>>> + Send + 'static
where
    S: LockStore,
    E: Send + 'static,
{
    let asked = inbound.map(|message| message.map(FromClient::Keep));
    session(locks, asked, drain_grace).filter_map(|message| {
        std::future::ready(match message {
            Ok(ToClient::Kept(message)) => Some(Ok(message)),
            // Nothing was asked that is answered.
            Ok(ToClient::Answer(..)) => None,
            Err(error) => Some(Err(error)),
        })
    })
}

/// Resolves when the client stalls, or takes data again. Whoever notes that polls next, so no wake-up is needed.
async fn changed(client: &Client, stalled: bool) {
    std::future::poll_fn(|_| if client.is_stalled() == stalled { Poll::Pending } else { Poll::Ready(()) }).await;
}

/// The next operation that is done, or nothing when calls have come to stand in line meanwhile. Dropped, nothing is
/// lost.
async fn next_done<F: Future>(under_way: &mut FuturesUnordered<F>, waits: &Waits) -> Option<F::Output> {
    std::future::poll_fn(|context| match Pin::new(&mut *under_way).poll_next(context) {
        Poll::Ready(Some(done)) => Poll::Ready(Some(done)),
        // None under way: whatever begins next is pushed by the loop, which polls this anew.
        Poll::Ready(None) | Poll::Pending if waits.some_in_line() => Poll::Ready(None),
        Poll::Ready(None) | Poll::Pending => Poll::Pending,
    })
    .await
}
