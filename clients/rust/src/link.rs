//! One session with a server: its read loop, and what it learns.

mod kept;
mod operations;

pub(crate) use operations::Room;

use crate::clock::Moment;
use crate::core::Core;
use crate::error::CallError;
use crate::lease::{LeaseKey, LeaseState};
use crate::operations::{ACQUIRES, RELEASES};
use crate::outbox::Outbox;
use crate::servers::Lane;
use crate::v1;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio_stream::Stream;
use tonic::Status;
use v1::lock_service_client::LockServiceClient;
use v1::session_response::Message;

/// What its keeper wants to know of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Health {
    /// When it was last heard of; since when it could have been, if never.
    pub(crate) heard: Moment,
    /// Has anything come at all?
    pub(crate) answers: bool,
    /// Has it shown that it can keep a lease alive?
    pub(crate) proven: bool,
    pub(crate) draining: bool,
    pub(crate) ended: bool,
}

impl Health {
    /// Has it shown that it can keep a lease alive, and may do so still?
    pub(crate) fn works(&self) -> bool {
        self.proven && !self.ended
    }
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) server: usize,
    core: Arc<Core>,
    /// Wakes the keeper, who looks at the health.
    keeper: Arc<Notify>,
    /// How many more acquires and releases may be under way.
    acquires: Arc<Semaphore>,
    releases: Arc<Semaphore>,
    /// Both held for a few instructions only, never over an await; the outbox never while the health is.
    outbox: Mutex<Outbox>,
    health: Mutex<Health>,
    /// What ended it.
    end: OnceLock<Status>,
}

impl Link {
    pub(crate) fn new(core: Arc<Core>, server: usize, keeper: Arc<Notify>, now: Moment) -> Arc<Self> {
        let health = Health { heard: now, answers: false, proven: false, draining: false, ended: false };
        let (acquires, releases) = (Arc::new(Semaphore::new(ACQUIRES)), Arc::new(Semaphore::new(RELEASES)));
        let (outbox, health, end) = (Mutex::default(), Mutex::new(health), OnceLock::new());
        Arc::new(Self { server, core, keeper, acquires, releases, outbox, health, end })
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn health(&self) -> Health {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of it. Says what was known before.
    fn note(&self, change: impl FnOnce(&mut Health)) -> Health {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *health;
        change(&mut health);
        before
    }

    pub(crate) fn attach(&self, lease: Arc<LeaseState>, now: Moment) {
        self.outbox().attach(lease, now);
    }

    pub(crate) fn is_attached(&self, key: LeaseKey) -> bool {
        self.outbox().is_attached(key)
    }

    pub(crate) fn detach(&self, key: LeaseKey) {
        self.outbox().detach(key);
    }

    /// Has the server confirmed every attachment?
    pub(crate) fn keeps_all(&self) -> bool {
        self.outbox().is_confirmed()
    }

    /// How many leases the server keeps by it.
    pub(crate) fn kept(&self) -> usize {
        self.outbox().confirmed()
    }

    /// The shortest TTL of the leases attached: what the server's beats go by.
    pub(crate) fn pace(&self, now: Moment) -> Option<Duration> {
        self.outbox().leases().map(|lease| lease.look(now).ttl).min()
    }

    /// The server is to send beats at a higher pace from now on: do not judge it by the time before.
    pub(crate) fn pace_changed(&self, now: Moment) {
        self.note(|health| health.heard = health.heard.max(now));
    }

    /// Says nothing more: the sending half ends, and what is not answered never is.
    pub(crate) fn close(&self, status: Status) {
        // Only what ended it first says why.
        let _ended_before = self.end.set(status);
        self.note(|health| health.ended = true);
        let operations = self.outbox().close();
        self.leave_unanswered(operations);
    }

    fn ended_with(&self) -> Status {
        self.end.get().cloned().unwrap_or_else(|| Status::unavailable("the session ended"))
    }

    /// Opens the session and reads it until it ends. Dropped, it resets the stream, which changes nothing for the
    /// leases.
    pub(crate) async fn run(self: Arc<Self>) {
        let _closing = Closing(self.clone());
        let status = self.read().await;
        tracing::debug!(server = self.server, %status, "session ended");
        self.close(status);
        self.core.servers.failed(self.server);
    }

    /// Says what ended it.
    async fn read(self: &Arc<Self>) -> Status {
        let mut client = LockServiceClient::new(self.core.servers.channel(self.server, Lane::Prompt));
        let mut messages = match client.session(Outgoing(self.clone())).await {
            Ok(messages) => messages.into_inner(),
            // A server that refuses to open one has done nothing: that is the answer to all that was asked.
            Err(refused) => return refused,
        };
        loop {
            match messages.message().await {
                Ok(Some(response)) => self.take_in(response, Moment::now()),
                Ok(None) => return Status::unavailable("the session ended"),
                // It says nothing of what was asked before.
                Err(status) if CallError::new(status.clone()).may_pass() => return status,
                Err(status) => return Status::unavailable(format!("the session ended: {status}")),
            }
        }
    }

    /// Nothing is awaited here, so that a beat is answered as soon as it is read.
    fn take_in(self: &Arc<Self>, response: v1::SessionResponse, now: Moment) {
        let Some(message) = response.message else { return };
        let proof = match &message {
            Message::Attached(_) | Message::Renewed(_) | Message::Lost(_) => true,
            Message::Acquire(answer) => answer.lease.is_some(),
            _ => false,
        };
        let before = self.note(|health| {
            health.heard = health.heard.max(now);
            health.answers = true;
            health.proven |= proof;
        });
        match message {
            answer @ (Message::Acquire(_) | Message::Release(_) | Message::Renew(_) | Message::Error(_)) => {
                self.answered(response.operation, answer, now);
            }
            Message::Waiting(waiting) => self.moved_up(response.operation, waiting),
            Message::Beat(beat) => self.outbox().answer(beat.beat),
            Message::Attached(attached) => self.renewed(&attached.leases, None, now),
            Message::Renewed(renewed) => {
                let sent = self.outbox().answered(renewed.beat);
                // Quotes an answer so old that it is forgotten? Then it says nothing new.
                if sent.is_some() {
                    self.renewed(&renewed.leases, sent, now);
                }
            }
            Message::Lost(lost) => self.lost(lost),
            Message::AtRisk(at_risk) => self.at_risk(&at_risk.handles, now),
            Message::Detached(detached) => self.detached(detached, now),
            Message::Draining(_) => self.drains(),
        }
        if proof && !before.proven {
            self.keeper.notify_one();
        }
    }

    /// The server goes away: what is new had better go elsewhere.
    fn drains(&self) {
        if !self.note(|health| health.draining = true).draining {
            self.core.servers.failed(self.server);
            self.keeper.notify_one();
        }
    }
}

/// However the read loop ends, nobody waits for what it would have read.
struct Closing(Arc<Link>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close(Status::unavailable("the session ended"));
        self.0.keeper.notify_one();
    }
}

/// The sending half of a stream: says what is in the outbox, when the transport asks.
struct Outgoing(Arc<Link>);

impl Stream for Outgoing {
    type Item = v1::SessionRequest;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut outbox = self.0.outbox();
        if outbox.is_closed() {
            return Poll::Ready(None);
        }
        match outbox.next(Moment::now()) {
            Some(message) => Poll::Ready(Some(message)),
            None => {
                outbox.wake_by(context.waker());
                Poll::Pending
            }
        }
    }
}
