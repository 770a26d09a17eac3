//! The driver of a session: its transport, or a task of its own while the client reads nothing.
//!
//! A session does its work when it is polled. As long as the client reads, the transport polls it, and no message
//! passes from one task to another: that is the fast path. A client that does not read stops it: its flow-control
//! window is full, the transport holds a message that it cannot send, and it polls for no more. If nobody else
//! polled, no call of the session would claim, decline or give up. Each offer of a lock to it would lapse only after
//! [`CLAIM_WINDOW`](crate::domain::limits::CLAIM_WINDOW), and no wait would end.
//!
//! So while calls wait, a task checks every [`STALL_CHECK_PERIOD`] whether the transport still owes a poll that it
//! owed one period before. If so, the session is *stalled*: the task polls in the transport's place until the
//! transport is back. Invariants:
//!
//! - One driver polls at a time, under a lock. A wake-up reaches both drivers, so none is lost when they change.
//! - A stalled session reads no message and says none. What it has to say is kept: at most one answer for each
//!   operation in flight and one notice for each lease, which bounds its memory. It sends no beats, so its leases end
//!   by their TTLs.
//! - Its waiting calls decline what they are offered, so that those behind them come first; a release is not handed
//!   over to them. When the client reads again they claim: within [`DROP_GRACE`](crate::domain::limits::DROP_GRACE)
//!   of the offer they are back at their places, later their requests have ended. Without an offer they wait on.
//!   Their own time and a drain end them as always.
//! - The session is known to be stalled once the transport holds a message that it cannot send; a beat is one at the
//!   latest. A lease that was granted before stays the client's until its TTL is over, as that of a client that
//!   pauses. Only a lease that a release handed over, and that the call has not picked up, is cut short as that of a
//!   dropped call.
//! - Dropped by the transport, the session ends at once, whoever drives it.

use crate::{domain::limits::STALL_CHECK_PERIOD, locks::client::Client, sync::Mutex};
use futures_util::task::AtomicWaker;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};
use tokio_stream::Stream;

/// A session as its transport sees it. Dropped, the session is over.
pub(super) struct Driven<St: Stream> {
    shared: Arc<Shared<St>>,
}

struct Shared<St: Stream> {
    session: Mutex<Session<St>>,
    client: Arc<Client>,
    drivers: Arc<Drivers>,
    /// That of `drivers`, with which the session is polled.
    waker: Waker,
}

struct Session<St: Stream> {
    /// None when it is over.
    stream: Option<Pin<Box<St>>>,
    /// Its last word, if it ended while it was stalled.
    last: Option<St::Item>,
    /// How often the transport has polled.
    polls: u64,
    /// The transport has got a message since a poll last found none.
    is_unsent: bool,
    /// The transport will poll again without being woken: for more, or when it has sent what it got.
    owes_poll: bool,
    /// The task that checks the transport runs.
    is_watched: bool,
}

/// Wakes both drivers.
#[derive(Default)]
struct Drivers {
    transport: AtomicWaker,
    /// Registered while the session is stalled.
    task: AtomicWaker,
}

impl Wake for Drivers {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.transport.wake();
        self.task.wake();
    }
}

impl<St: Stream> Session<St> {
    fn poll(&mut self, waker: &Waker) -> Poll<Option<St::Item>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
        let polled = stream.as_mut().poll_next(&mut Context::from_waker(waker));
        if matches!(polled, Poll::Ready(None)) {
            self.stream = None;
        }
        polled
    }

    /// The same for the transport.
    fn poll_for_transport(&mut self, waker: &Waker) -> Poll<Option<St::Item>> {
        let polled = match self.last.take() {
            Some(last) => Poll::Ready(Some(last)),
            None => self.poll(waker),
        };
        self.polls = self.polls.wrapping_add(1);
        if polled.is_ready() {
            self.is_unsent = true;
            self.owes_poll = true;
        } else {
            // The transport sends what it got. Once there is room for that, it polls again.
            self.owes_poll = std::mem::take(&mut self.is_unsent);
        }
        polled
    }
}

impl<St: Stream> Driven<St>
where
    St: Stream + Send + 'static,
    St::Item: Send,
{
    pub(super) fn new(stream: St, client: Arc<Client>) -> Self {
        let drivers = Arc::new(Drivers::default());
        let session = Session {
            stream: Some(Box::pin(stream)),
            last: None,
            polls: 0,
            is_unsent: false,
            owes_poll: false,
            is_watched: false,
        };
        let waker = Waker::from(drivers.clone());
        Self { shared: Arc::new(Shared { session: Mutex::new(session), client, drivers, waker }) }
    }
}

impl<St> Stream for Driven<St>
where
    St: Stream + Send + 'static,
    St::Item: Send,
{
    type Item = St::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<St::Item>> {
        let shared = &self.shared;
        shared.drivers.transport.register(context.waker());
        let mut session = shared.session.lock();
        shared.client.reads();
        let polled = session.poll_for_transport(&shared.waker);
        if !session.is_watched && session.stream.is_some() && shared.client.is_waiting() {
            session.is_watched = true;
            drop(tokio::task::spawn(watch(shared.clone())));
        }
        polled
    }
}

impl<St: Stream> Drop for Driven<St> {
    fn drop(&mut self) {
        let stream = self.shared.session.lock().stream.take();
        drop(stream);
        self.shared.drivers.task.wake();
    }
}

enum Finding {
    /// The session is over, or no call waits.
    Over,
    TakesData,
    Stalled,
}

impl<St: Stream> Shared<St> {
    /// Checks whether the transport polls. `owed` is its count of polls when it was last found to owe one.
    fn check(&self, owed: &mut Option<u64>) -> Finding {
        let mut session = self.session.lock();
        if session.stream.is_none() || !self.client.is_waiting() {
            session.is_watched = false;
            return Finding::Over;
        }
        if !session.owes_poll {
            *owed = None;
        } else if owed.replace(session.polls) == Some(session.polls) {
            *owed = None;
            self.client.stalls();
            return Finding::Stalled;
        } else {
            // A consumer that polls only when it is woken comes now.
            self.drivers.transport.wake();
        }
        Finding::TakesData
    }

    /// Polls in the transport's place. Ready when the transport is back, or the session is over.
    fn poll_stalled(&self, context: &Context<'_>) -> Poll<()> {
        self.drivers.task.register(context.waker());
        let mut session = self.session.lock();
        while self.client.is_stalled() && session.stream.is_some() {
            match session.poll(&self.waker) {
                Poll::Ready(Some(last)) => session.last = Some(last),
                Poll::Ready(None) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
        self.drivers.task.take();
        Poll::Ready(())
    }
}

/// Keeps a session going whose client does not read. Ends when no call of it waits.
async fn watch<St: Stream>(shared: Arc<Shared<St>>) {
    let mut owed = None;
    loop {
        tokio::time::sleep(STALL_CHECK_PERIOD).await;
        match shared.check(&mut owed) {
            Finding::Over => return,
            Finding::TakesData => {}
            Finding::Stalled => std::future::poll_fn(|context| shared.poll_stalled(context)).await,
        }
    }
}
