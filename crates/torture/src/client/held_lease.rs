//! A lease held by a worker, and its validity by the worker's clock.

use super::{
    caller::{Caller, Mode, Terms, cause},
    outcome::valid_until,
    session::Attachment,
    work::Role,
};
use crate::clock;
use fencepost_proto::v1;
use fencepost_torture::history::{ConvertEnd, Lost, Nanos, Record, Renewed};
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
    /// Whether it can be converted: it is of a lock that readers and writers share.
    pub(super) is_convertible: bool,
    /// Its token, which a conversion changes.
    token: Arc<AtomicU64>,
    /// Its holder does not write.
    reads_only: Arc<AtomicBool>,
    /// It is of a semaphore.
    has_permits: bool,
    /// A conversion has had an unknown outcome, so that the token may be another one.
    is_in_doubt: Arc<AtomicBool>,
    valid_until: Arc<AtomicU64>,
    lost: Arc<AtomicBool>,
    /// Its attachment to the session that it was acquired on, until a keeper takes it.
    attachment: Arc<Mutex<Option<Attachment>>>,
}

impl HeldLease {
    pub(super) fn new(lease: v1::Lease, terms: &Terms, valid_until: Nanos) -> Self {
        Self {
            ttl: terms.ttl,
            is_convertible: terms.is_convertible(),
            token: Arc::new(AtomicU64::new(lease.fencing_token)),
            reads_only: Arc::new(AtomicBool::new(terms.mode != Mode::Exclusive)),
            has_permits: terms.mode.permits() > 0,
            is_in_doubt: Arc::default(),
            valid_until: Arc::new(AtomicU64::new(valid_until)),
            lost: Arc::default(),
            attachment: Arc::default(),
            lease,
        }
    }

    pub(super) fn token(&self) -> u64 {
        self.token.load(Ordering::Relaxed)
    }

    pub(super) fn reads_only(&self) -> bool {
        self.reads_only.load(Ordering::Relaxed)
    }

    pub(super) fn role(&self) -> Role {
        match (self.has_permits, self.reads_only()) {
            (true, _) => Role::with_permits(self.lease.slot),
            (false, true) => Role::Reader,
            (false, false) => Role::Writer,
        }
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.is_in_doubt.load(Ordering::Relaxed)
    }

    /// Stops its holder from writing, before a request that lets readers in is sent.
    pub(super) fn read_only(&self) {
        self.reads_only.store(true, Ordering::Relaxed);
    }

    /// Applies the outcome of a conversion.
    pub(super) fn converted(&self, to_shared: bool, end: &ConvertEnd) {
        match end {
            ConvertEnd::Converted(token) => {
                self.token.store(*token, Ordering::Relaxed);
                self.reads_only.store(to_shared, Ordering::Relaxed);
                // A late copy of a conversion names an older token.
                self.is_in_doubt.fetch_and(to_shared, Ordering::Relaxed);
            }
            ConvertEnd::Unknown(_) => self.is_in_doubt.store(true, Ordering::Relaxed),
            ConvertEnd::Contended | ConvertEnd::Gone(_) | ConvertEnd::Refused(_) => {}
        }
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
            let (client, lock, token) = (caller.client, self.lease.lock_name.clone(), self.token());
            caller.journal.record(Record::Renewed(Renewed { client, lock, token, sent, at, valid_until }));
        }
    }

    /// Records a loss reported on a stream.
    pub(super) fn lost(&self, caller: &Caller, lost: &v1::Lost, at: Nanos) {
        let (lock, token) = (self.lease.lock_name.clone(), self.token());
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
        let (lock, token) = (self.lease.lock_name.clone(), self.token());
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
