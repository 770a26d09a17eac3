//! What the store tells a stream of the leases it keeps.

use crate::{
    domain::{ids::AttachmentId, lease::LeaseEnd},
    sync::{Mutex, Notify},
};
use std::collections::VecDeque;

/// Something that befell a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::locks) enum StreamNotice {
    /// It has ended.
    Ended(LeaseEnd),
    /// A newer attachment keeps it.
    AttachedElsewhere,
}

/// A stream's notices, until it comes to read them. Bounded by what is attached: an attachment ends once, and is
/// replaced once.
#[derive(Debug, Default)]
pub(in crate::locks) struct Inbox {
    notices: Mutex<VecDeque<(AttachmentId, StreamNotice)>>,
    more: Notify,
    /// Some may have been lost on their way.
    lacks_some: Mutex<bool>,
}

impl Inbox {
    pub(in crate::locks) fn push(&self, attachment: AttachmentId, notice: StreamNotice) {
        // mutant: stream woken too early
        self.notices.lock().push_back((attachment, notice));
        self.more.notify_one();
        // mutant: stream woken too early: to here
    }

    /// Some may have been lost on their way here.
    pub(in crate::locks) fn lack_some(&self) {
        *self.lacks_some.lock() = true;
    }

    /// Whether that is so, since it was asked last.
    pub(super) fn take_lack(&self) -> bool {
        std::mem::take(&mut *self.lacks_some.lock())
    }

    /// Takes the oldest, at most `max` of them. If some are left, it is ready again at once.
    pub(super) fn take(&self, max: usize) -> Vec<(AttachmentId, StreamNotice)> {
        let mut notices = self.notices.lock();
        let count = notices.len().min(max);
        let taken = notices.drain(..count).collect();
        if notices.is_empty() {
            // Gives the memory back: a stream can lose very many leases, but does so once.
            *notices = VecDeque::new();
        } else {
            self.more.notify_one();
        }
        taken
    }

    /// Resolves when there may be something to take. Dropped, nothing is lost.
    pub(in crate::locks) async fn ready(&self) {
        self.more.notified().await;
    }
}
