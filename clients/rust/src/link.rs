//! One keep-alive stream: its read loop, and what it learns.

use crate::clock::Moment;
use crate::core::Core;
use crate::lease::{LeaseKey, LeaseState, Lost};
use crate::outbox::Outbox;
use crate::proto::duration;
use crate::servers::Lane;
use crate::v1;
use crate::validity::Reading;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_stream::Stream;
use v1::detached::Reason;
use v1::keep_alive_response::Message;
use v1::lock_service_client::LockServiceClient;

/// What its keeper wants to know of a stream.
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

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) server: usize,
    core: Arc<Core>,
    /// Wakes the keeper, who looks at the health.
    keeper: Arc<Notify>,
    /// Both held for a few instructions only, never over an await; the outbox never while the health is.
    outbox: Mutex<Outbox>,
    health: Mutex<Health>,
}

impl Link {
    pub(crate) fn new(core: Arc<Core>, server: usize, keeper: Arc<Notify>, now: Moment) -> Arc<Self> {
        let health = Health { heard: now, answers: false, proven: false, draining: false, ended: false };
        Arc::new(Self { server, core, keeper, outbox: Mutex::default(), health: Mutex::new(health) })
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn health(&self) -> Health {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, change: impl FnOnce(&mut Health)) {
        change(&mut self.health.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn attach(&self, lease: Arc<LeaseState>, now: Moment) {
        self.outbox().attach(lease, now);
    }

    pub(crate) fn detach(&self, key: LeaseKey) {
        self.outbox().detach(key);
    }

    /// The server is to send beats at a higher pace from now on: do not judge it by the time before.
    pub(crate) fn pace_changed(&self, now: Moment) {
        self.note(|health| health.heard = health.heard.max(now));
    }

    /// Says nothing more: the sending half ends.
    pub(crate) fn close(&self) {
        self.outbox().close();
    }

    /// Opens the stream and reads it until it ends. Dropped, it resets the stream, which changes nothing for the leases.
    pub(crate) async fn run(self: Arc<Self>) {
        let result = self.read().await;
        tracing::debug!(server = self.server, ?result, "keep-alive stream ended");
        self.close();
        self.note(|health| health.ended = true);
        self.core.servers.failed(self.server);
        self.keeper.notify_one();
    }

    async fn read(self: &Arc<Self>) -> Result<(), tonic::Status> {
        let mut client = LockServiceClient::new(self.core.servers.channel(self.server, Lane::Prompt));
        let mut messages = client.keep_alive(Outgoing(self.clone())).await?.into_inner();
        while let Some(message) = messages.message().await? {
            if let Some(message) = message.message {
                self.take_in(message, Moment::now());
            }
        }
        Ok(())
    }

    /// Nothing is awaited here, so that a beat is answered as soon as it is read.
    fn take_in(&self, message: Message, now: Moment) {
        let first_proof = matches!(message, Message::Attached(_) | Message::Renewed(_) | Message::Lost(_));
        let proven_before = self.health().proven;
        self.note(|health| {
            health.heard = health.heard.max(now);
            health.answers = true;
            health.proven |= first_proof;
            health.draining |= matches!(message, Message::Draining(_));
        });
        match message {
            Message::Beat(beat) => self.outbox().answer(beat.beat),
            Message::Attached(attached) => self.renewed(&attached.leases, None, now),
            Message::Renewed(renewed) => {
                let sent = self.outbox().answered(renewed.beat);
                // Quotes an answer so old that it is forgotten? Then it says nothing new.
                if sent.is_some() {
                    self.renewed(&renewed.leases, sent, now);
                }
            }
            Message::Lost(lost) => {
                let ended = self.outbox().take(lost.handle);
                if let Some(ended) = ended {
                    ended.lease.end(Lost::told(lost.end(), lost.successor_token));
                }
            }
            Message::AtRisk(at_risk) => self.at_risk(&at_risk.handles, now),
            Message::Detached(detached) => self.detached(detached, now),
            Message::Draining(_) => {
                // New calls had better go elsewhere too.
                self.core.servers.failed(self.server);
                self.keeper.notify_one();
            }
        }
        if first_proof && !proven_before {
            self.keeper.notify_one();
        }
    }

    /// Leases that were renewed, by the answer sent then or by what attached them.
    fn renewed(&self, groups: &[v1::RenewedLeases], sent: Option<Moment>, now: Moment) {
        for group in groups {
            let ttl = duration(group.ttl);
            for handle in &group.handles {
                let found = self.outbox().attachment(*handle).cloned();
                let Some(attachment) = found else { continue };
                // A renewal in the name of an attachment that is not sent yet is not ours.
                let Some(attached) = attachment.sent else { continue };
                let sent = sent.unwrap_or(attached);
                attachment.lease.renewed(Reading { sent, read: now, held_for: Duration::ZERO, ttl });
            }
        }
    }

    fn at_risk(&self, handles: &[u32], now: Moment) {
        for handle in handles {
            let found = self.outbox().attachment(*handle).cloned();
            if let Some(attachment) = found.filter(|attachment| attachment.is_latest()) {
                attachment.lease.store_unreachable(now);
            }
        }
    }

    /// The stream no longer keeps a lease alive.
    fn detached(&self, detached: v1::Detached, now: Moment) {
        let taken = self.outbox().take(detached.handle);
        // If this process has attached it to its next stream since, that is the reason, and all is well.
        let Some(attachment) = taken.filter(|attachment| attachment.is_latest()) else { return };
        let lease = attachment.lease;
        match detached.reason() {
            Reason::StreamFull => {
                lease.leave_stream();
                self.core.spawn(crate::alone::keep_alive(self.core.clone(), lease));
            }
            // Somebody else keeps it? Once is a mistake (an old stream that turned up late) and set right. Twice is another
            // process that was given the lease: it is valid until the end of what we know, and no longer ours to renew.
            Reason::AttachedElsewhere | Reason::Unspecified | Reason::Requested => {
                if lease.may_reattach() {
                    self.attach(lease.clone(), now);
                    // Given back at this very moment? It must not be kept alive again.
                    if lease.lost(now).is_some() {
                        self.detach(lease.key);
                    }
                } else {
                    lease.leave_stream();
                    lease.at_risk(now);
                }
            }
        }
    }
}

/// The sending half of a stream: says what is in the outbox, when the transport asks.
struct Outgoing(Arc<Link>);

impl Stream for Outgoing {
    type Item = v1::KeepAliveRequest;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut outbox = self.0.outbox();
        if outbox.is_closed() {
            return Poll::Ready(None);
        }
        match outbox.next(Moment::now()) {
            Some(message) => Poll::Ready(Some(v1::KeepAliveRequest { message: Some(message) })),
            None => {
                outbox.wake_by(context.waker());
                Poll::Pending
            }
        }
    }
}
