//! Passes the store's notices on to waiting calls, streams and watchers.

use super::{
    keepalive::{Inbox, StreamNotice},
    waiters::Waiters,
    watch::Watchers,
};
use crate::{
    domain::{
        ids::{AttachmentId, Call, RequestId},
        lease::LeaseEnd,
        mode::ModeName,
        outcome::AcquireOutcome,
    },
    store::{AuditNote, Event, Notices, Timed},
    sync::{Notify, RwLock},
};
use hashbrown::HashMap;
use std::{fmt, sync::Arc};

/// Writes the audit log. Called while the store holds a mutex of its own: it is quick, and does not block.
pub trait Auditor: fmt::Debug + Send + Sync + 'static {
    /// A lease was granted, or has ended.
    fn note(&self, note: AuditNote);
}

/// Passes the store's notices on.
#[derive(Debug)]
pub struct Hub {
    auditor: Option<Arc<dyn Auditor>>,
    pub(super) waiters: Waiters,
    pub(super) watchers: Watchers,
    /// The open streams. The id of an attachment contains the id of its stream, so a held lease needs no entry here.
    streams: RwLock<HashMap<u64, Arc<Inbox>>>,
    /// Notified when a waiting call or a stream leaves. Only the drain listens.
    pub(super) left: Arc<Notify>,
}

impl Hub {
    /// A hub without listeners.
    pub fn new() -> Self {
        let left = Arc::new(Notify::new());
        let (waiters, watchers) = (Waiters::new(left.clone()), Watchers::default());
        Self { auditor: None, waiters, watchers, streams: RwLock::default(), left }
    }

    /// The same, and passes notes for the audit log on.
    #[must_use]
    pub fn audited(self, auditor: Arc<dyn Auditor>) -> Self {
        Self { auditor: Some(auditor), ..self }
    }

    pub(super) fn streams(&self) -> usize {
        self.streams.read().len()
    }

    pub(super) fn open(&self, stream: u64) -> Arc<Inbox> {
        let inbox = Arc::new(Inbox::default());
        self.streams.write().insert(stream, inbox.clone());
        inbox
    }

    pub(super) fn close(&self, stream: u64) {
        self.streams.write().remove(&stream);
        self.left.notify_one();
    }

    fn notify(&self, attachment: AttachmentId, notice: StreamNotice) {
        if let Some(inbox) = self.streams.read().get(&attachment.0.as_u64_pair().0) {
            inbox.push(attachment, notice);
        }
    }
}

impl Default for Hub {
    fn default() -> Self {
        Self::new()
    }
}

impl Notices for Hub {
    fn look_again(&self, request: RequestId, attempt: u32) {
        self.waiters.look_again(request, attempt);
    }

    fn claimed(&self, call: Call, outcome: Timed<AcquireOutcome>) -> bool {
        self.waiters.claimed(call, outcome)
    }

    fn is_alive(&self, request: RequestId, attempt: u32) -> bool {
        self.waiters.is_alive(request, attempt)
    }

    fn lease_ended(&self, attachment: AttachmentId, end: LeaseEnd) {
        self.notify(attachment, StreamNotice::Ended(end));
    }

    fn detached(&self, attachment: AttachmentId) {
        self.notify(attachment, StreamNotice::AttachedElsewhere);
    }

    fn wanted(&self, attachment: AttachmentId, mode: ModeName) {
        self.notify(attachment, StreamNotice::Wanted(mode));
    }

    fn is_watched(&self) -> bool {
        self.watchers.any()
    }

    fn event(&self, event: Event) {
        self.watchers.publish(&event);
    }

    fn is_audited(&self) -> bool {
        self.auditor.is_some()
    }

    fn audit(&self, note: AuditNote) {
        if let Some(auditor) = &self.auditor {
            auditor.note(note);
        }
    }

    fn hints_lost(&self) {
        self.streams.read().values().for_each(|inbox| inbox.lack_some());
    }

    fn events_lost(&self) {
        self.watchers.publish_gap();
    }
}
