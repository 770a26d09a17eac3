//! A lease held by a worker, and its validity by the worker's clock.

use super::{
    caller::{Caller, Mode, Terms, cause},
    outcome::valid_until,
    session::Attachment,
};
use crate::clock;
use fencepost_proto::v1;
use fencepost_torture::history::{Lost, Nanos, Record, Renewed};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Shared by the worker and the tasks that keep the lease alive.
#[derive(Clone)]
pub(super) struct HeldLease {
    pub(super) lease: v1::Lease,
    pub(super) ttl: Duration,
    /// Its holder does nothing in the stores.
    pub(super) reads_only: bool,
    valid_until: Arc<AtomicU64>,
    lost: Arc<AtomicBool>,
    /// Its attachment to the session that it was acquired on, until a keeper takes it.
    attachment: Arc<Mutex<Option<Attachment>>>,
}

impl HeldLease {
    pub(super) fn new(lease: v1::Lease, terms: &Terms, valid_until: Nanos) -> Self {
        let (ttl, reads_only) = (terms.ttl, terms.mode != Mode::Exclusive);
        let valid_until = Arc::new(AtomicU64::new(valid_until));
        Self { lease, ttl, reads_only, valid_until, lost: Arc::default(), attachment: Arc::default() }
    }

    pub(super) fn with_attachment(self, attachment: Option<Attachment>) -> Self {
        Self { attachment: Arc::new(Mutex::new(attachment)), ..self }
    }

    pub(super) fn take_attachment(&self) -> Option<Attachment> {
        self.attachment.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn valid_until(&self) -> Nanos {
        self.valid_until.load(Ordering::Relaxed)
    }

    /// Moves the end of the validity forward, unless the lease is lost.
    pub(super) fn extend(&self, valid_until: Nanos) {
        if !self.is_lost() {
            self.valid_until.fetch_max(valid_until, Ordering::Relaxed);
        }
    }

    /// Records a renewal on a stream, sent at `sent`. One that arrives too late is ignored.
    pub(super) fn renewed(&self, caller: &Caller, sent: Nanos, at: Nanos, ttl: Duration) {
        if self.is_valid() {
            let valid_until = valid_until(sent, at, Duration::ZERO, ttl);
            self.extend(valid_until);
            let (client, lock, token) = (caller.client, self.lease.lock_name.clone(), self.lease.fencing_token);
            caller.journal.record(Record::Renewed(Renewed { client, lock, token, sent, at, valid_until }));
        }
    }

    /// Records a loss reported on a stream.
    pub(super) fn lost(&self, caller: &Caller, lost: &v1::Lost, at: Nanos) {
        let (lock, token) = (self.lease.lock_name.clone(), self.lease.fencing_token);
        let successor = (lost.successor_token != 0).then_some(lost.successor_token);
        self.lose(caller, Lost { client: caller.client, lock, token, at, cause: cause(lost.end()), successor });
    }

    /// Checks the clock.
    pub(super) fn is_valid(&self) -> bool {
        !self.is_lost() && clock::now() < self.valid_until()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Marks the lease as lost. Only the first cause is recorded.
    pub(super) fn lose(&self, caller: &Caller, lost: Lost) {
        if !self.lost.swap(true, Ordering::Relaxed) {
            caller.journal.record(Record::Lost(lost));
        }
    }

    /// Records that the validity has ended by the worker's clock.
    pub(super) fn expire(&self, caller: &Caller) {
        let (lock, token) = (self.lease.lock_name.clone(), self.lease.fencing_token);
        let cause = "deadline".to_owned();
        self.lose(caller, Lost { client: caller.client, lock, token, at: clock::now(), cause, successor: None });
    }

    /// Waits for the end of the lease, at most `time`. Returns whether it has ended.
    pub(super) async fn ended_within(&self, caller: &Caller, time: Duration) -> bool {
        let bound = clock::now() + clock::nanos(time);
        loop {
            if self.is_lost() {
                return true;
            }
            if !self.is_valid() {
                self.expire(caller);
                return true;
            }
            let left = clock::until(bound);
            if left.is_zero() {
                return false;
            }
            tokio::time::sleep(left.min(clock::until(self.valid_until())).clamp(PAUSE_MIN, POLL_INTERVAL)).await;
        }
    }
}

const PAUSE_MIN: Duration = Duration::from_millis(1);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
