//! Sessions: one stream that carries all operations of a client. A KeepAlive stream has a loop of its own, in
//! `keepalive`.

mod driver;
mod operations;
mod positions;
mod turn;

use super::{
    AcquireAnswer, AcquireCall, Dispatch, Locks, LocksError, Permission,
    client::Client,
    keepalive::{self, SessionError, StreamError},
};
use crate::{
    domain::{
        ids::{Call, LeaseId},
        name::LockName,
        outcome::{ReleaseOutcome, RenewOutcome},
    },
    store::Store,
};
use driver::Driven;
use futures_util::StreamExt;
use operations::{Begun, Session};
use std::{pin::pin, sync::Arc, task::Poll, time::Duration};
use tokio::time::Instant;
use tokio_stream::Stream;
use turn::UnderWay;

/// A message from the client. `E` is the error of a message that breaks a rule of the API.
#[derive(Clone, Debug)]
pub enum FromClient<E> {
    /// A message of the KeepAlive protocol.
    Keep(keepalive::FromClient),
    /// Begin this operation, and answer under this number.
    Begin(u64, Operation),
    /// The operation of this number breaks a rule of the API. It is answered with this error.
    Refuse(u64, E),
    /// End the wait of the acquire with this number.
    Cancel(u64),
}

/// An operation.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Acquires a lock. Boxed, because each layer between the transport and the lock moves it.
    Acquire(Box<Acquire>),
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
}

/// An acquire, whose lease the session keeps.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The lock.
    pub name: LockName,
    /// The call.
    pub call: AcquireCall,
    /// The client's number for the lease.
    pub handle: u32,
    /// Whether to revoke the lease when the stream ends, unless the server ended it.
    pub release_on_disconnect: bool,
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

enum Event<E, D> {
    Notice,
    Message(Option<Result<FromClient<E>, E>>),
    Done(Option<D>),
    TimerDue,
    Renewing,
    Positions,
    Draining,
    OtherDriver,
    Gone,
}

/// Runs the operations that arrive on `inbound`, each through `dispatch`, many at once, and keeps the leases of the
/// session alive, until the stream ends or the server has drained.
///
/// Dropping the stream means that the client is gone: operations in flight are dropped like calls, and the `Drop` of
/// the leases cleans up, whichever await was pending. While the client does not read, no beat is sent and leases end;
/// the module `driver` describes what happens to its calls.
pub fn session<S, E>(
    locks: Arc<Locks<S>>,
    (dispatch, permission): (impl Dispatch, Option<Arc<dyn Permission>>),
    inbound: impl Stream<Item = Result<FromClient<E>, E>> + Send + 'static,
    drain_grace: Duration,
) -> impl Stream<Item = Result<ToClient<E>, SessionError<E>>> + Send + 'static
where
    S: Store,
    E: Send + 'static,
{
    let client = Arc::new(Client::default());
    Driven::new(operate(locks, (dispatch, permission), client.clone(), inbound, drain_grace), client)
}

/// The stream of a session, which a driver polls.
fn operate<S, E>(
    locks: Arc<Locks<S>>,
    (dispatch, permission): (impl Dispatch, Option<Arc<dyn Permission>>),
    client: Arc<Client>,
    inbound: impl Stream<Item = Result<FromClient<E>, E>> + Send + 'static,
    drain_grace: Duration,
) -> impl Stream<Item = Result<ToClient<E>, SessionError<E>>> + Send + 'static
where
    S: Store,
    E: Send + 'static,
{
    async_stream::stream! {
        let mut inbound = pin!(inbound.fuse());
        let mut session = Session::open(locks.clone(), client.clone(), permission);
        let mut under_way = UnderWay::default();
        let mut run = |begun: Begun| {
            let (locks, dispatch) = (locks.clone(), dispatch.clone());
            // Made in its place: `Box::pin` would copy 3 KB of it, most of which it does not use yet.
            Box::into_pin(Box::write(Box::new_uninit(), begun.run(locks, dispatch)))
        };
        let mut timer = pin!(tokio::time::sleep_until(session.next_due()));
        let mut due = session.next_due();
        // Made once: a new one in each turn would register with its token, and leave it again.
        let (mut gone, mut draining) = (pin!(locks.going.gone.cancelled()), pin!(locks.going.draining.cancelled()));
        // `heard`: the last event was a message. Renewals come next, so that a flood of messages costs no lease.
        let (mut drain_sent, mut heard) = (false, false);
        loop {
            under_way.let_others_run().await;
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
                () = &mut gone, if drain_sent => Event::Gone,
                () = changed(&client, stalled) => Event::OtherDriver,
                () = &mut timer, if !stalled => Event::TimerDue,
                () = session.keeping.inbox().ready() => Event::Notice,
                () = &mut draining, if !drain_sent => Event::Draining,
                () = std::future::ready(()), if heard && session.keeping.is_renewing() => Event::Renewing,
                done = under_way.next_done(&session.positions) => Event::Done(done),
                message = inbound.next(), if !stalled => Event::Message(message),
                () = std::future::ready(()), if session.keeping.is_renewing() => Event::Renewing,
                () = std::future::ready(()), if !stalled && session.positions.is_looking() => Event::Positions,
            };
            heard = matches!(event, Event::Message(_));
            let goes_on = match event {
                Event::OtherDriver => Ok(true),
                Event::Notice => { session.keeping.take_notices(); Ok(true) }
                Event::Renewing => { session.keeping.renew_some().await; Ok(true) }
                Event::TimerDue => {
                    due = Instant::now();
                    session.on_time(due).map(|()| true).map_err(|error| SessionError::Stream(error.into()))
                }
                Event::Positions => { session.send_positions(); Ok(true) }
                Event::Draining => {
                    drain_sent = true;
                    session.keeping.say(keepalive::ToClient::Draining(drain_grace));
                    Ok(true)
                }
                Event::Done(done) => { turn::finish(&mut session, &mut under_way, done).await; Ok(true) }
                Event::Message(message) => {
                    turn::take(&mut session, &mut under_way, inbound.as_mut(), message, &mut run).await
                }
                Event::Gone => Err(SessionError::Stream(StreamError::Gone(LocksError::Draining))),
            };
            match goes_on {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => { yield Err(error); return; }
            }
        }
    }
}

/// Resolves when the client stops reading, or reads again. The driver that notes it polls next, so no wake-up is
/// needed.
async fn changed(client: &Client, stalled: bool) {
    std::future::poll_fn(|_| if client.is_stalled() == stalled { Poll::Pending } else { Poll::Ready(()) }).await;
}
