//! What the store tells a stream of the leases it keeps.

use crate::domain::{ids::AttachmentId, lease::LeaseEnd};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Something that befell a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::locks) enum StreamNotice {
    /// It has ended.
    Ended(LeaseEnd),
    /// A newer attachment keeps it.
    AttachedElsewhere,
}

/// A stream's notices, until it comes to read them. Bounded by what is attached: an attachment ends once, and is replaced once.
#[derive(Debug, Default)]
pub(in crate::locks) struct Inbox {
    notices: Mutex<Vec<(AttachmentId, StreamNotice)>>,
    more: Notify,
}

impl Inbox {
    pub(in crate::locks) fn push(&self, attachment: AttachmentId, notice: StreamNotice) {
        self.notices.lock().push((attachment, notice));
        self.more.notify_one();
    }

    pub(super) fn take(&self) -> Vec<(AttachmentId, StreamNotice)> {
        std::mem::take(&mut *self.notices.lock())
    }

    /// Resolves when there may be something to take. Dropped, nothing is lost.
    pub(super) async fn ready(&self) {
        self.more.notified().await;
    }
}
