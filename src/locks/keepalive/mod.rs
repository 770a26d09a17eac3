//! KeepAlive: one stream that keeps any number of leases, at the server's pace.
//!
//! The server sends beats; only the client's answers renew. So a client that is paused, or cut off, or whose read loop is
//! stuck stops renewing, whatever its kernel and its transport go on acknowledging (etcd #17470: leases kept alive after
//! their client was gone).

mod inbox;
mod pace;
mod session;

pub(super) use inbox::{Inbox, StreamNotice};

use super::{Locks, LocksError};
use crate::{
    domain::{
        ids::LeaseId,
        limits::BEAT_PERIOD_MAX,
        name::LockName,
        outcome::{Fate, Gone},
    },
    store::LockStore,
};
use session::Session;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_stream::{Stream, StreamExt};

/// What the client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// Keep these alive.
    Attach(Vec<AttachLease>),
    /// Stop keeping these alive.
    Detach(Vec<u32>),
    /// The answer to the beat of this number.
    Answer(u64),
}

/// A lease to keep alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachLease {
    /// The client's number for it on this stream.
    pub handle: u32,
    /// Its lock.
    pub name: LockName,
    /// The lease.
    pub lease_id: LeaseId,
    /// The client's count of attachments.
    pub attempt: u32,
    /// Whether to take it back when the stream ends without the server's doing.
    pub release_on_disconnect: bool,
}

/// What the server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToClient {
    /// Answer this.
    Beat {
        /// Its number.
        beat: u64,
        /// When the next one is due.
        next_in: Duration,
    },
    /// These are attached, and renewed by it.
    Attached(Vec<Group>),
    /// The answer to this beat renewed these.
    Renewed {
        /// The beat.
        beat: u64,
        /// The leases.
        leases: Vec<Group>,
    },
    /// A lease has ended.
    Lost {
        /// Which.
        handle: u32,
        /// How.
        gone: Gone,
    },
    /// The store cannot be reached for these.
    AtRisk(Vec<u32>),
    /// A lease is no longer kept by this stream.
    Detached {
        /// Which.
        handle: u32,
        /// Why.
        reason: DetachReason,
    },
    /// The server goes away after this long.
    Draining(Duration),
}

/// Leases with the same time left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// How long they have left.
    pub left: Duration,
    /// Which.
    pub handles: Vec<u32>,
}

/// Why a stream no longer keeps a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetachReason {
    /// The client asked for it.
    Requested,
    /// A newer attachment took over.
    AttachedElsewhere,
    /// The stream carries as many as it may.
    StreamFull,
}

/// Why a stream ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The client attached two leases under one number.
    #[error("handle {0} is in use on this stream: attach under another one, or detach it first")]
    HandleInUse(u32),
    /// The client answered what it was not asked.
    #[error("beat {0} was not sent on this stream")]
    BeatNotSent(u64),
    /// The client answered an earlier beat after a later one.
    #[error("beat {answered} was answered before: answers must not go backwards, and {beat} does")]
    BeatBackwards {
        /// What it answers now.
        beat: u64,
        /// What it answered before.
        answered: u64,
    },
    /// The server goes away.
    #[error(transparent)]
    Gone(#[from] LocksError),
}

enum Event<E> {
    Notice,
    Message(Option<Result<FromClient, E>>),
    BeatDue,
    Renewing,
    Draining,
    Gone,
}

/// Keeps leases alive as the client asks on `inbound`, until it ends or the server goes away.
///
/// Dropping the stream is the sign that the client is gone: the session's own `Drop` does what is to be done then, whichever
/// await it was dropped in. While the client does not read, nothing is polled here: no beat is answered, and leases end.
pub fn keep_alive<S, E>(
    locks: Arc<Locks<S>>,
    inbound: impl Stream<Item = Result<FromClient, E>> + Send + 'static,
    drain_grace: Duration,
) -> impl Stream<Item = Result<ToClient, KeepAliveError<E>>> + Send + 'static
where
    S: LockStore,
    E: Send + 'static,
{
    async_stream::stream! {
        let mut inbound = std::pin::pin!(inbound);
        let mut session = Session::open(&locks);
        let draining = locks.going.draining.clone();
        let gone = locks.going.gone.clone();
        let mut told = false;
        // Whether a message was the last thing: then it is the renewals' turn. A client that talks without end is no reason to lose leases.
        let mut heard = false;
        loop {
            while let Some(message) = session.next_message() {
                yield Ok(message);
            }
            let beat_at = session.next_beat_at();
            let event = tokio::select! {
                biased;
                () = gone.cancelled() => Event::Gone,
                () = tokio::time::sleep_until(beat_at) => Event::BeatDue,
                () = session.inbox().ready() => Event::Notice,
                () = draining.cancelled(), if !told => Event::Draining,
                () = std::future::ready(()), if heard && session.is_renewing() => Event::Renewing,
                message = inbound.next() => Event::Message(message),
                () = std::future::ready(()), if session.is_renewing() => Event::Renewing,
            };
            heard = matches!(event, Event::Message(_));
            let done = match event {
                Event::Notice => { session.take_notices(); Ok(()) }
                Event::Renewing => { session.renew_some().await; Ok(()) }
                Event::BeatDue => { session.beat(Instant::now()); Ok(()) }
                Event::Draining => { told = true; session.say(ToClient::Draining(drain_grace)); Ok(()) }
                Event::Message(Some(Ok(message))) => session.receive(message).await,
                // The transport broke: the client did not end the stream in order, which is the same to its leases.
                Event::Message(Some(Err(error))) => { yield Err(KeepAliveError::Inbound(error)); return; }
                Event::Message(None) => return,
                Event::Gone => Err(StreamError::Gone(LocksError::Draining)),
            };
            if let Err(error) = done {
                yield Err(KeepAliveError::Stream(error));
                return;
            }
        }
    }
}

/// Why a stream ended, the transport's reasons included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeepAliveError<E> {
    /// The service's reason.
    Stream(StreamError),
    /// The transport's, or that of whoever decoded the message.
    Inbound(E),
}

/// A lease that ended without anybody having taken the lock since, as far as is known.
fn ended(end: crate::domain::lease::LeaseEnd) -> Gone {
    Gone { fate: Fate::Ended(end), successor: None }
}

const _: () = assert!(BEAT_PERIOD_MAX.as_secs() > 0, "a stream without leases beats too");
