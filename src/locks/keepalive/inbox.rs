//! Notices of the store to a stream about its leases.

use crate::{
    domain::{ids::AttachmentId, lease::LeaseEnd, mode::ModeName},
    sync::{Mutex, Notify},
};
use std::collections::VecDeque;

/// A notice about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::locks) enum StreamNotice {
    /// It has ended.
    Ended(LeaseEnd),
    /// A newer attachment replaced that of this stream.
    AttachedElsewhere,
    /// Somebody waits for its lock, in this mode.
    Wanted(ModeName),
}

/// The unread notices of a stream. Bounded by its attachments, each of which ends once, is
/// replaced once and is wanted once by each leader.
#[derive(Debug, Default)]
pub(in crate::locks) struct Inbox {
    notices: Mutex<VecDeque<(AttachmentId, StreamNotice)>>,
    more: Notify,
    /// Whether notices may have been lost.
    lacks_some: Mutex<bool>,
}

impl Inbox {
    pub(in crate::locks) fn push(&self, attachment: AttachmentId, notice: StreamNotice) {
        // mutant: stream woken too early
        self.notices.lock().push_back((attachment, notice));
        self.more.notify_one();
        // mutant: stream woken too early: to here
    }

    /// Notes that notices may have been lost.
    pub(in crate::locks) fn lack_some(&self) {
        *self.lacks_some.lock() = true;
    }

    /// Whether notices may have been lost since the last call.
    pub(super) fn take_lack(&self) -> bool {
        std::mem::take(&mut *self.lacks_some.lock())
    }

    /// Takes the oldest notices, at most `max`. If some are left, [`Inbox::ready`] resolves again at once.
    pub(super) fn take(&self, max: usize) -> Vec<(AttachmentId, StreamNotice)> {
        let mut notices = self.notices.lock();
        let count = notices.len().min(max);
        let taken = notices.drain(..count).collect();
        if notices.is_empty() {
            // Frees the memory: a stream may lose very many leases, but only once.
            *notices = VecDeque::new();
        } else {
            self.more.notify_one();
        }
        taken
    }

    /// Resolves when there may be notices to take. Cancel-safe.
    pub(in crate::locks) async fn ready(&self) {
        self.more.notified().await;
    }
}
