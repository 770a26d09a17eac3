//! Receivers of the notices of a store.

#![allow(dead_code, reason = "no test uses all of it")]

use fencepost::testing::{
    domain::{
        ids::{AttachmentId, Call, RequestId},
        lease::LeaseEnd,
        mode::ModeName,
        outcome::AcquireOutcome,
    },
    store::{AuditNote, Event, Notices, Timed},
};
use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

/// Ignores all notices.
pub(crate) struct NoNotices;

impl Notices for NoNotices {
    fn look_again(&self, _: RequestId, _: u32) {}

    fn claimed(&self, _: Call, _: Timed<AcquireOutcome>) -> bool {
        false
    }

    fn is_alive(&self, _: RequestId, _: u32) -> bool {
        true
    }

    fn lease_ended(&self, _: AttachmentId, _: LeaseEnd) {}

    fn detached(&self, _: AttachmentId) {}

    fn wanted(&self, _: AttachmentId, _: ModeName) {}

    fn is_watched(&self) -> bool {
        false
    }

    fn event(&self, _: Event) {}

    fn is_audited(&self) -> bool {
        false
    }

    fn audit(&self, _: AuditNote) {}

    fn hints_lost(&self) {}

    fn events_lost(&self) {}
}

/// Records all notices.
#[derive(Debug, Default)]
pub(crate) struct RecordingNotices {
    pub(crate) hints: Mutex<Vec<(RequestId, u32)>>,
    pub(crate) claimed: Mutex<Vec<(Call, Timed<AcquireOutcome>)>>,
    pub(crate) ended: Mutex<Vec<(AttachmentId, LeaseEnd)>>,
    pub(crate) detached: Mutex<Vec<AttachmentId>>,
    pub(crate) wanted: Mutex<Vec<(AttachmentId, ModeName)>>,
    pub(crate) events: Mutex<Vec<Event>>,
    pub(crate) watched: AtomicBool,
    /// Whether no waiting client reads.
    pub(crate) stalled: AtomicBool,
}

impl Notices for RecordingNotices {
    fn look_again(&self, request: RequestId, attempt: u32) {
        self.hints.lock().unwrap().push((request, attempt));
    }

    fn claimed(&self, call: Call, outcome: Timed<AcquireOutcome>) -> bool {
        self.claimed.lock().unwrap().push((call, outcome));
        true
    }

    fn is_alive(&self, _: RequestId, _: u32) -> bool {
        !self.stalled.load(Ordering::SeqCst)
    }

    fn lease_ended(&self, attachment: AttachmentId, end: LeaseEnd) {
        self.ended.lock().unwrap().push((attachment, end));
    }

    fn detached(&self, attachment: AttachmentId) {
        self.detached.lock().unwrap().push(attachment);
    }

    fn wanted(&self, attachment: AttachmentId, mode: ModeName) {
        self.wanted.lock().unwrap().push((attachment, mode));
    }

    fn is_watched(&self) -> bool {
        self.watched.load(Ordering::SeqCst)
    }

    fn event(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }

    fn is_audited(&self) -> bool {
        false
    }

    fn audit(&self, _: AuditNote) {}

    fn hints_lost(&self) {}

    fn events_lost(&self) {}
}

impl RecordingNotices {
    /// Takes the notices of one kind.
    pub(crate) fn take<T>(list: &Mutex<Vec<T>>) -> Vec<T> {
        std::mem::take(&mut *list.lock().unwrap())
    }

    /// Whether the calls of this attempt were woken, by a hint or by a claim that the store made for them.
    pub(crate) fn is_woken(&self, request: RequestId, attempt: u32) -> bool {
        let claimed = |(call, _): &(Call, _)| (call.request, call.attempt) == (request, attempt);
        self.hints.lock().unwrap().contains(&(request, attempt)) || self.claimed.lock().unwrap().iter().any(claimed)
    }
}
