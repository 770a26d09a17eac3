//! Outgoing messages of a session, and when they were sent.
//!
//! The transport pulls each message when it can send it, so no message can go stale. The outbox is bounded by the
//! numbers of leases and operations, and only the newest beat is answered. Detachments and releases go first, so that
//! no beat answer that could renew a lease follows its release. Acquires go last: existing leases have priority.

use crate::clock::Moment;
use crate::lease::{LeaseKey, LeaseState};
use crate::operation::Outcome;
use crate::operations::{Cancelled, InFlight, Operations};
use crate::v1;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use v1::session_request::Message;

/// The maximum total size of the items of one message; the server accepts 64 KiB.
const MESSAGE_BYTES: usize = 48 * 1024;

/// The maximum wire size of an attachment without its name and lease id.
const ATTACHMENT_BYTES: usize = 32;

/// The maximum number of handles in one message; each takes up to 5 bytes.
const HANDLES: usize = MESSAGE_BYTES / 5;

/// The number of beat answers remembered for renewals that quote them. A server renews well within so many beats.
const ANSWERS: usize = 64;

/// One attachment of a lease to this session.
#[derive(Clone, Debug)]
pub(crate) struct Attachment {
    pub(crate) lease: Arc<LeaseState>,
    /// The attempt number, which counts over all sessions.
    pub(crate) number: u32,
    /// When it was sent.
    pub(crate) sent: Option<Moment>,
    /// Whether it repeats one that the server ended on this session.
    pub(crate) repeated: bool,
    /// Whether the server has confirmed the attachment.
    confirmed: bool,
}

impl Attachment {
    /// Whether the lease has not been attached elsewhere since.
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
    /// Attaches a lease under a new handle, replacing its previous handle on this session.
    pub(crate) fn attach(&mut self, lease: Arc<LeaseState>, now: Moment) {
        self.queue_attachment(lease, now, false);
    }

    /// Attaches a lease again whose attachment the server has ended.
    pub(crate) fn attach_again(&mut self, lease: Arc<LeaseState>, now: Moment) {
        self.queue_attachment(lease, now, true);
    }

    fn queue_attachment(&mut self, lease: Arc<LeaseState>, now: Moment, repeated: bool) {
        if self.closed {
            return;
        }
        let number = lease.next_attachment(now);
        let handle = self.next_handle();
        self.insert(handle, Attachment { lease, number, sent: None, repeated, confirmed: false });
        self.to_attach.push_back(handle);
        self.wake();
    }

    fn next_handle(&mut self) -> u32 {
        loop {
            self.last_handle = self.last_handle.wrapping_add(1);
            if !self.attached.contains_key(&self.last_handle) && !self.operations.is_reserved(self.last_handle) {
                return self.last_handle;
            }
        }
    }

    fn insert(&mut self, handle: u32, attachment: Attachment) {
        if let Some(old) = self.by_lease.insert(attachment.lease.key, handle) {
            self.attached.remove(&old);
        }
        self.attached.insert(handle, attachment);
    }

    /// Adds a lease that was granted here by a request sent at `sent`, and is attached by its grant.
    pub(crate) fn granted(&mut self, handle: u32, lease: Arc<LeaseState>, sent: Moment) {
        if !self.closed {
            let attachment = Attachment { lease, number: 1, sent: Some(sent), repeated: false, confirmed: true };
            self.insert(handle, attachment);
        }
    }

    /// The attached leases, sent or unsent.
    pub(crate) fn leases(&self) -> impl Iterator<Item = &LeaseState> {
        self.attached.values().map(|attachment| &*attachment.lease)
    }

    pub(crate) fn is_attached(&self, key: LeaseKey) -> bool {
        self.by_lease.contains_key(&key)
    }

    /// Queues an acquire and returns its number.
    pub(crate) fn acquire(
        &mut self,
        request: v1::AcquireRequest,
        position: Option<watch::Sender<Option<u32>>>,
        caller: oneshot::Sender<Outcome>,
        permit: OwnedSemaphorePermit,
    ) -> u64 {
        let handle = self.next_handle();
        let message = v1::SessionAcquire { request: Some(request), handle, release_on_disconnect: false };
        let mut operation = InFlight::new(Message::Acquire(message), caller, permit);
        (operation.handle, operation.position) = (Some(handle), position);
        self.wake();
        self.operations.add(operation)
    }

    /// Queues a release and returns its number. The release also detaches the lease.
    pub(crate) fn release(
        &mut self,
        key: LeaseKey,
        request: v1::ReleaseRequest,
        caller: oneshot::Sender<Outcome>,
        permit: OwnedSemaphorePermit,
    ) -> u64 {
        let mut operation = InFlight::new(Message::Release(request), caller, permit);
        operation.handle = self.forget(key);
        self.wake();
        self.operations.add(operation)
    }

    /// The caller of an operation is gone. Returns whether the operation was sent.
    pub(crate) fn give_up(&mut self, number: u64) -> bool {
        let cancelled = self.operations.cancel(number);
        if let Cancelled::Unsent(operation) = &cancelled {
            self.to_detach.extend(operation.released_handle());
        }
        self.wake();
        matches!(cancelled, Cancelled::Sent)
    }

    /// Removes an answered operation. A failed release still detaches the lease.
    pub(crate) fn operation_answered(&mut self, number: u64, failed: bool) -> Option<InFlight> {
        let operation = self.operations.answered(number)?;
        if let Some(handle) = operation.released_handle().filter(|_| failed) {
            self.to_detach.push(handle);
            self.wake();
        }
        Some(operation)
    }

    /// Detaches a lease.
    pub(crate) fn detach(&mut self, key: LeaseKey) {
        if let Some(handle) = self.forget(key) {
            self.to_detach.push(handle);
            self.wake();
        }
    }

    /// Removes a lease and returns its handle if the server knows it.
    fn forget(&mut self, key: LeaseKey) -> Option<u32> {
        let handle = self.by_lease.remove(&key)?;
        self.attached.remove(&handle)?.sent.map(|_| handle)
    }

    /// Queues the answer to a beat.
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

    /// The server has renewed a lease under this handle. Returns the lease and when its attachment was sent; `None` if
    /// the handle is unknown or its attachment not sent.
    pub(crate) fn confirm(&mut self, handle: u32) -> Option<(Arc<LeaseState>, Moment)> {
        let attachment = self.attached.get_mut(&handle)?;
        let sent = attachment.sent?;
        attachment.confirmed = true;
        Some((attachment.lease.clone(), sent))
    }

    /// The number of confirmed attachments.
    pub(crate) fn confirmed(&self) -> usize {
        self.attached.values().filter(|attachment| attachment.confirmed).count()
    }

    /// Whether every attachment is confirmed.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.attached.values().all(|attachment| attachment.confirmed)
    }

    /// Removes a lease that the server has detached.
    pub(crate) fn take(&mut self, handle: u32) -> Option<Attachment> {
        let attachment = self.attached.remove(&handle)?;
        if self.by_lease.get(&attachment.lease.key) == Some(&handle) {
            self.by_lease.remove(&attachment.lease.key);
        }
        Some(attachment)
    }

    /// Closes the outbox and returns the operations without an answer.
    pub(crate) fn close(&mut self) -> impl Iterator<Item = InFlight> + use<> {
        self.wake();
        let closed = std::mem::replace(self, Self { closed: true, ..Self::default() });
        closed.operations.into_in_flight()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn set_waker(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The next message. Its effect counts from `now`, which is before it is sent.
    pub(crate) fn next(&mut self, now: Moment) -> Option<v1::SessionRequest> {
        let request = |(operation, message)| v1::SessionRequest { operation, message: Some(message) };
        if let Some(detach) = self.next_detach() {
            return Some(request((0, detach)));
        }
        if let Some(urgent) = self.operations.next_urgent(now) {
            return Some(request(urgent));
        }
        if let Some(message) = self.next_answer(now).or_else(|| self.next_attach(now)) {
            return Some(request((0, message)));
        }
        self.operations.next_acquire(now).map(request)
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
            // Detached meanwhile.
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
