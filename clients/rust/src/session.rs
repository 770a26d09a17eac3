//! One session with a server: its read loop and its health.

mod leases;
mod operations;

pub(crate) use operations::Permit;

use crate::clock::Moment;
use crate::core::{Backoff, Core};
use crate::error::CallError;
use crate::facts;
use crate::lease::{LeaseKey, LeaseState};
use crate::operations::{ACQUIRES, RELEASES};
use crate::outbox::Outbox;
use crate::servers::{Lane, ServerChannel};
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

/// The health of a session, for its keeper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Health {
    /// When the last message arrived; before the first one, when the session was opened.
    pub(crate) last_received: Moment,
    /// Whether any message has arrived.
    pub(crate) answers: bool,
    /// Whether it has kept a lease alive.
    pub(crate) proven: bool,
    /// Whether an operation got no answer in time, and nothing else has arrived since it was asked for.
    pub(crate) hangs: bool,
    pub(crate) draining: bool,
    pub(crate) ended: bool,
    /// When the server may have room for a session, if it refused this one because a quota is used up.
    pub(crate) room_at: Option<Moment>,
}

impl Health {
    /// Whether it has kept a lease alive and has not ended.
    pub(crate) fn works(&self) -> bool {
        self.proven && !self.ended
    }
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) server: usize,
    channel: ServerChannel,
    core: Arc<Core>,
    /// Wakes the keeper, which checks the health.
    keeper: Arc<Notify>,
    /// Permits for in-flight acquires and releases.
    acquires: Arc<Semaphore>,
    releases: Arc<Semaphore>,
    /// Both are locked for a few instructions only, never across an await. `outbox` is never locked while `health` is.
    outbox: Mutex<Outbox>,
    health: Mutex<Health>,
    /// The number of sessions opened before it since one worked.
    tries: u32,
    /// Why it ended.
    end: OnceLock<CallError>,
}

impl Session {
    pub(crate) fn new(core: Arc<Core>, server: usize, keeper: Arc<Notify>, tries: u32, now: Moment) -> Arc<Self> {
        let (answers, proven, hangs, draining, ended) = (false, false, false, false, false);
        let health = Health { last_received: now, answers, proven, hangs, draining, ended, room_at: None };
        let (acquires, releases) = (Arc::new(Semaphore::new(ACQUIRES)), Arc::new(Semaphore::new(RELEASES)));
        let (outbox, health, end) = (Mutex::default(), Mutex::new(health), OnceLock::new());
        let channel = core.servers.channel(server, Lane::Prompt);
        Arc::new(Self { server, channel, core, keeper, acquires, releases, outbox, health, tries, end })
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn health(&self) -> Health {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the health and returns the previous one.
    fn change_health(&self, change: impl FnOnce(&mut Health)) -> Health {
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

    /// Whether the server has confirmed every attachment.
    pub(crate) fn keeps_all(&self) -> bool {
        self.outbox().is_confirmed()
    }

    /// The number of leases that the server keeps on this session.
    pub(crate) fn kept(&self) -> usize {
        self.outbox().confirmed()
    }

    /// The shortest TTL of the attached leases, which sets the server's beat interval.
    pub(crate) fn pace(&self, now: Moment) -> Option<Duration> {
        self.outbox().leases().map(|lease| lease.snapshot(now).ttl).min()
    }

    /// The beat interval becomes shorter: silence counts from now.
    pub(crate) fn pace_changed(&self, now: Moment) {
        self.change_health(|health| health.last_received = health.last_received.max(now));
    }

    /// Nothing arrives any more: the next session opens another connection.
    pub(crate) fn went_silent(&self) {
        self.core.went_silent(&self.channel);
    }

    /// Ends the outgoing stream. Operations without an answer fail.
    pub(crate) fn close(&self, error: CallError) {
        let room_at = error.is_over_quota().then(|| {
            let delay = error.retry_delay().unwrap_or_default();
            Moment::now().plus(Backoff::after(self.tries).next().max(delay))
        });
        // The first cause is kept.
        if self.end.set(error).is_ok() {
            self.change_health(|health| (health.ended, health.room_at) = (true, room_at));
        }
        let operations = self.outbox().close();
        self.fail_operations(operations);
    }

    fn ended_with(&self) -> CallError {
        self.end.get().cloned().unwrap_or_else(ended)
    }

    /// Opens the session and reads it until it ends. Dropped, it resets the stream; the leases are not affected.
    pub(crate) async fn run(self: Arc<Self>) {
        let _closing = Closing(self.clone());
        let error = self.read().await;
        tracing::debug!(server = self.server, %error, "session ended");
        self.close(error.clone());
        let (servers, is_over_quota) = (&self.core.servers, error.is_over_quota());
        let why = servers.explain(self.server, error).diagnosis();
        if is_over_quota { servers.refused(self.server, &why) } else { servers.failed(self.server, &why) }
    }

    /// Returns why the session ended.
    async fn read(self: &Arc<Self>) -> CallError {
        let mut client = LockServiceClient::new(self.channel.connection.clone());
        let mut messages = match client.session(Outgoing(self.clone())).await {
            Ok(messages) => {
                let id = messages.metadata().get(facts::STORE_ID_METADATA).and_then(|id| id.to_str().ok());
                if let Some(id) = id {
                    self.core.servers.told_store(self.server, id);
                }
                messages.into_inner()
            }
            // The server refused to open a session and did nothing, so all operations fail with its status.
            Err(refused) => return CallError::new(refused).of_opening(),
        };
        loop {
            match messages.message().await {
                Ok(Some(response)) => self.receive(response, Moment::now()),
                Ok(None) => return ended(),
                Err(status) => {
                    let error = CallError::new(status);
                    if error.is_transient() {
                        return error;
                    }
                    // The status says nothing about earlier operations.
                    return CallError::new(Status::unavailable(format!("the session ended: {}", error.status())));
                }
            }
        }
    }

    /// No await here, so that a beat is answered as soon as it is read.
    fn receive(self: &Arc<Self>, response: v1::SessionResponse, now: Moment) {
        let Some(message) = response.message else { return };
        let proof = match &message {
            Message::Attached(_) | Message::Renewed(_) | Message::Lost(_) => true,
            Message::Acquire(answer) => answer.lease.is_some(),
            _ => false,
        };
        let before = self.change_health(|health| {
            health.last_received = health.last_received.max(now);
            (health.answers, health.hangs) = (true, false);
            health.proven |= proof;
        });
        match message {
            answer @ (Message::Acquire(_) | Message::Release(_) | Message::Renew(_) | Message::Error(_)) => {
                self.answered(response.operation, answer, now);
            }
            Message::Waiting(waiting) => self.queue_moved(response.operation, waiting),
            Message::Beat(beat) => self.outbox().answer(beat.beat),
            Message::Attached(attached) => self.renewed(&attached.leases, None, now),
            Message::Renewed(renewed) => {
                let sent = self.outbox().answered(renewed.beat);
                // A renewal that quotes a forgotten answer is too old to be useful.
                if sent.is_some() {
                    self.renewed(&renewed.leases, sent, now);
                }
            }
            Message::Lost(lost) => self.lost(lost),
            Message::AtRisk(at_risk) => self.at_risk(&at_risk.handles, now),
            Message::Detached(detached) => self.detached(detached, now),
            Message::Draining(_) => self.drains(),
            Message::Wanted(wanted) => self.wanted(wanted, now),
        }
        if proof && !before.proven {
            self.core.servers.answered(self.server);
            self.keeper.notify_one();
        }
    }

    /// The server drains: new operations should use another one.
    fn drains(&self) {
        if !self.change_health(|health| health.draining = true).draining {
            self.core.servers.failed(self.server, &"it drains");
            self.keeper.notify_one();
        }
    }
}

/// The error of a session that just ended.
fn ended() -> CallError {
    CallError::new(Status::unavailable("the session ended"))
}

/// However the read loop ends, operations do not wait for it.
struct Closing(Arc<Session>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close(ended());
        self.0.keeper.notify_one();
    }
}

/// The outgoing stream: yields messages of the outbox when the transport asks for them.
struct Outgoing(Arc<Session>);

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
                outbox.set_waker(context.waker());
                Poll::Pending
            }
        }
    }
}
