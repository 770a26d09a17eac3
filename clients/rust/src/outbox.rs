//! What is still to be said on a session, and when things were said.
//!
//! The transport pulls each message at the moment it can send it, so there is no queue that could grow or go stale:
//! what waits here is bounded by the number of leases and of operations, and of several beats only the newest is
//! answered. Detachments and releases go first: once a lock is released, no answer that could renew it goes out any
//! more. Acquires go last: what is held comes before what is wished for.

use crate::clock::Moment;
use crate::lease::{LeaseKey, LeaseState};
use crate::operation::Outcome;
use crate::operations::{Cancelled, Operations, UnderWay};
use crate::proto::duration;
use crate::v1;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use v1::session_request::Message;

/// How large the parts of one message may become together; the server takes 64 KiB.
const MESSAGE_BYTES: usize = 48 * 1024;

/// What a field of an attachment takes up on the wire beside its text, at most.
const ATTACHMENT_BYTES: usize = 32;

/// How many handles go into one message; each takes up to 5 bytes.
const HANDLES: usize = MESSAGE_BYTES / 5;

/// How many answers are remembered for the renewals that quote them. A server renews long before it sent so many beats.
const ANSWERS: usize = 64;

/// One attachment of a lease to this stream.
#[derive(Clone, Debug)]
pub(crate) struct Attachment {
    pub(crate) lease: Arc<LeaseState>,
    /// Counts over all streams.
    pub(crate) number: u32,
    /// When it was said.
    pub(crate) sent: Option<Moment>,
    /// Has the server said that it keeps the lease?
    confirmed: bool,
}

impl Attachment {
    /// Has the lease not been attached anew since?
    pub(crate) fn is_latest(&self) -> bool {
        self.lease.attachment() == self.number
    }
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    attached: HashMap<u32, Attachment>,
    by_lease: HashMap<LeaseKey, u32>,
    last_handle: u32,
    pub(crate) operations: Operations,
    to_attach: VecDeque<u32>,
    to_detach: Vec<u32>,
    to_answer: Option<u64>,
    answered: VecDeque<(u64, Moment)>,
    waker: Option<Waker>,
    closed: bool,
}

impl Outbox {
    /// Asks for a lease to be kept alive, under a handle of its own, whatever other handles it had here.
    pub(crate) fn attach(&mut self, lease: Arc<LeaseState>, now: Moment) {
        if self.closed {
            return;
        }
        let number = lease.next_attachment(now);
        let handle = self.next_handle();
        self.note(handle, Attachment { lease, number, sent: None, confirmed: false });
        self.to_attach.push_back(handle);
        self.wake();
    }

    fn next_handle(&mut self) -> u32 {
        loop {
            self.last_handle = self.last_handle.wrapping_add(1);
            if !self.attached.contains_key(&self.last_handle) && !self.operations.has_chosen(self.last_handle) {
                return self.last_handle;
            }
        }
    }

    fn note(&mut self, handle: u32, attachment: Attachment) {
        if let Some(old) = self.by_lease.insert(attachment.lease.key, handle) {
            self.attached.remove(&old);
        }
        self.attached.insert(handle, attachment);
    }

    /// A lease that was granted here, and is attached since `sent` asked for it.
    pub(crate) fn granted(&mut self, handle: u32, lease: Arc<LeaseState>, sent: Moment) {
        if !self.closed {
            self.note(handle, Attachment { lease, number: 1, sent: Some(sent), confirmed: true });
        }
    }

    /// What it keeps alive, or is about to.
    pub(crate) fn leases(&self) -> impl Iterator<Item = &LeaseState> {
        self.attached.values().map(|attachment| &*attachment.lease)
    }

    pub(crate) fn is_attached(&self, key: LeaseKey) -> bool {
        self.by_lease.contains_key(&key)
    }

    /// Asks for a lock. Says the number of the operation.
    pub(crate) fn acquire(
        &mut self,
        request: v1::AcquireRequest,
        ahead: Option<watch::Sender<Option<u32>>>,
        caller: oneshot::Sender<Outcome>,
        room: OwnedSemaphorePermit,
    ) -> u64 {
        let (handle, ttl) = (self.next_handle(), duration(request.ttl));
        let message = v1::SessionAcquire { request: Some(request), handle, release_on_disconnect: false };
        let mut operation = UnderWay::new(Message::Acquire(message), caller, room);
        (operation.handle, operation.ttl, operation.ahead) = (Some(handle), ttl, ahead);
        self.wake();
        self.operations.add(operation)
    }

    /// Gives a lease back. From the release on the server does not renew it, so there is nothing to detach.
    pub(crate) fn release(
        &mut self,
        key: LeaseKey,
        request: v1::ReleaseRequest,
        caller: oneshot::Sender<Outcome>,
        room: OwnedSemaphorePermit,
    ) -> u64 {
        let mut operation = UnderWay::new(Message::Release(request), caller, room);
        operation.handle = self.forget(key);
        self.wake();
        self.operations.add(operation)
    }

    /// An operation's caller is gone. Says whether it was sent.
    pub(crate) fn give_up(&mut self, number: u64) -> bool {
        let cancelled = self.operations.cancel(number);
        if let Cancelled::Unsent(operation) = &cancelled {
            self.to_detach.extend(operation.gives_back());
        }
        self.wake();
        matches!(cancelled, Cancelled::Sent)
    }

    /// Takes out an operation that was answered. A release that failed must not leave a lease that is renewed.
    pub(crate) fn operation_answered(&mut self, number: u64, failed: bool) -> Option<UnderWay> {
        let operation = self.operations.answered(number)?;
        if let Some(handle) = operation.gives_back().filter(|_| failed) {
            self.to_detach.push(handle);
            self.wake();
        }
        Some(operation)
    }

    /// Asks for a lease to be kept alive no more.
    pub(crate) fn detach(&mut self, key: LeaseKey) {
        if let Some(handle) = self.forget(key) {
            self.to_detach.push(handle);
            self.wake();
        }
    }

    /// The handle that the server knows a lease by, which from now on names it no more.
    fn forget(&mut self, key: LeaseKey) -> Option<u32> {
        let handle = self.by_lease.remove(&key)?;
        self.attached.remove(&handle)?.sent.map(|_| handle)
    }

    /// A beat to answer.
    pub(crate) fn answer(&mut self, beat: u64) {
        self.to_answer = Some(beat);
        self.wake();
    }

    /// When a beat was answered.
    pub(crate) fn answered(&self, beat: u64) -> Option<Moment> {
        self.answered.iter().find(|(answered, _)| *answered == beat).map(|(_, sent)| *sent)
    }

    pub(crate) fn attachment(&self, handle: u32) -> Option<&Attachment> {
        self.attached.get(&handle)
    }

    /// The server has renewed a lease in the name of an attachment. Says what was attached, and when. In the name of
    /// one that is not sent yet it is not ours.
    pub(crate) fn confirm(&mut self, handle: u32) -> Option<(Arc<LeaseState>, Moment)> {
        let attachment = self.attached.get_mut(&handle)?;
        let sent = attachment.sent?;
        attachment.confirmed = true;
        Some((attachment.lease.clone(), sent))
    }

    /// How many attachments are confirmed.
    pub(crate) fn confirmed(&self) -> usize {
        self.attached.values().filter(|attachment| attachment.confirmed).count()
    }

    /// Is every attachment confirmed?
    pub(crate) fn is_confirmed(&self) -> bool {
        self.attached.values().all(|attachment| attachment.confirmed)
    }

    /// The server has let go of a lease.
    pub(crate) fn take(&mut self, handle: u32) -> Option<Attachment> {
        let attachment = self.attached.remove(&handle)?;
        if self.by_lease.get(&attachment.lease.key) == Some(&handle) {
            self.by_lease.remove(&attachment.lease.key);
        }
        Some(attachment)
    }

    /// Nothing more will be said. What is not answered now never is.
    pub(crate) fn close(&mut self) -> impl Iterator<Item = UnderWay> + use<> {
        self.wake();
        let closed = std::mem::replace(self, Self { closed: true, ..Self::default() });
        closed.operations.into_under_way()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn wake_by(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The next thing to say. What it says counts from `now`, which is before it is sent.
    pub(crate) fn next(&mut self, now: Moment) -> Option<v1::SessionRequest> {
        let said = |(operation, message)| v1::SessionRequest { operation, message: Some(message) };
        if let Some(detach) = self.next_detach() {
            return Some(said((0, detach)));
        }
        if let Some(urgent) = self.operations.next_urgent(now) {
            return Some(said(urgent));
        }
        if let Some(message) = self.next_answer(now).or_else(|| self.next_attach(now)) {
            return Some(said((0, message)));
        }
        self.operations.next_acquire(now).map(said)
    }

    fn next_detach(&mut self) -> Option<Message> {
        if self.to_detach.is_empty() {
            return None;
        }
        let rest = self.to_detach.len().saturating_sub(HANDLES);
        let handles = self.to_detach.split_off(rest);
        Some(Message::Detach(v1::DetachLeases { handles }))
    }

    fn next_answer(&mut self, now: Moment) -> Option<Message> {
        let beat = self.to_answer.take()?;
        if self.answered.len() == ANSWERS {
            self.answered.pop_front();
        }
        self.answered.push_back((beat, now));
        Some(Message::Answer(v1::BeatAnswer { beat }))
    }

    fn next_attach(&mut self, now: Moment) -> Option<Message> {
        let mut leases = Vec::new();
        let mut bytes = 0;
        while let Some(handle) = self.to_attach.pop_front() {
            // Given up meanwhile?
            let Some(attachment) = self.attached.get_mut(&handle) else { continue };
            let lease = &attachment.lease;
            bytes += lease.name.len() + lease.lease_id.len() + ATTACHMENT_BYTES;
            if bytes > MESSAGE_BYTES && !leases.is_empty() {
                self.to_attach.push_front(handle);
                break;
            }
            attachment.sent = Some(now);
            leases.push(v1::LeaseAttachment {
                handle,
                lock_name: lease.name.clone(),
                lease_id: lease.lease_id.clone(),
                attempt: attachment.number,
                release_on_disconnect: false,
            });
        }
        (!leases.is_empty()).then_some(Message::Attach(v1::AttachLeases { leases }))
    }
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
