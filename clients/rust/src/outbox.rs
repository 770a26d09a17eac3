//! What is still to be said on a keep-alive stream, and when things were said.
//!
//! The transport pulls each message at the moment it can send it, so there is no queue that could grow or go stale: what
//! waits here is bounded by the number of leases, and of several beats only the newest is answered. Detachments go
//! first: once a lock is released, no answer that could renew it goes out any more.

use crate::clock::Moment;
use crate::lease::{LeaseKey, LeaseState};
use crate::v1;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use v1::keep_alive_request::Message;

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
        loop {
            self.last_handle = self.last_handle.wrapping_add(1);
            if !self.attached.contains_key(&self.last_handle) {
                break;
            }
        }
        if let Some(old) = self.by_lease.insert(lease.key, self.last_handle) {
            self.attached.remove(&old);
        }
        self.attached.insert(self.last_handle, Attachment { lease, number, sent: None });
        self.to_attach.push_back(self.last_handle);
        self.wake();
    }

    /// Asks for a lease to be kept alive no more.
    pub(crate) fn detach(&mut self, key: LeaseKey) {
        let Some(handle) = self.by_lease.remove(&key) else { return };
        let said = self.attached.remove(&handle).is_some_and(|attachment| attachment.sent.is_some());
        if said && !self.closed {
            self.to_detach.push(handle);
            self.wake();
        }
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

    /// The server has let go of a lease.
    pub(crate) fn take(&mut self, handle: u32) -> Option<Attachment> {
        let attachment = self.attached.remove(&handle)?;
        if self.by_lease.get(&attachment.lease.key) == Some(&handle) {
            self.by_lease.remove(&attachment.lease.key);
        }
        Some(attachment)
    }

    /// Nothing more will be said.
    pub(crate) fn close(&mut self) {
        let waker = self.waker.take();
        *self = Self { closed: true, ..Self::default() };
        if let Some(waker) = waker {
            waker.wake();
        }
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
    pub(crate) fn next(&mut self, now: Moment) -> Option<Message> {
        if !self.to_detach.is_empty() {
            let rest = self.to_detach.len().saturating_sub(HANDLES);
            let handles = self.to_detach.split_off(rest);
            return Some(Message::Detach(v1::DetachLeases { handles }));
        }
        if let Some(beat) = self.to_answer.take() {
            if self.answered.len() == ANSWERS {
                self.answered.pop_front();
            }
            self.answered.push_back((beat, now));
            return Some(Message::Answer(v1::BeatAnswer { beat }));
        }
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
