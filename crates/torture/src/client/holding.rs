//! A lease that a worker holds, by its own reckoning.

use super::{
    caller::{Caller, cause},
    outcome::valid_until,
    session::Kept,
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

/// Shared by the worker and by whoever keeps the lease alive for it.
#[derive(Clone)]
pub(super) struct Holding {
    pub(super) lease: v1::Lease,
    pub(super) ttl: Duration,
    valid_until: Arc<AtomicU64>,
    lost: Arc<AtomicBool>,
    /// The session that it was acquired on keeps it, until somebody takes that over.
    kept: Arc<Mutex<Option<Kept>>>,
}

impl Holding {
    pub(super) fn new(lease: v1::Lease, ttl: Duration, valid_until: Nanos) -> Self {
        let valid_until = Arc::new(AtomicU64::new(valid_until));
        Self { lease, ttl, valid_until, lost: Arc::default(), kept: Arc::default() }
    }

    pub(super) fn kept_by(self, kept: Option<Kept>) -> Self {
        Self { kept: Arc::new(Mutex::new(kept)), ..self }
    }

    pub(super) fn take_kept(&self) -> Option<Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn valid_until(&self) -> Nanos {
        self.valid_until.load(Ordering::Relaxed)
    }

    /// Replaces what was known only by a later end, and never revives what is lost.
    pub(super) fn extend(&self, valid_until: Nanos) {
        if !self.is_lost() {
            self.valid_until.fetch_max(valid_until, Ordering::Relaxed);
        }
    }

    /// It was renewed on a stream, by what was sent then. What comes too late for its holder renews nothing.
    pub(super) fn renewed(&self, caller: &Caller, sent: Nanos, at: Nanos, ttl: Duration) {
        if self.is_valid() {
            let valid_until = valid_until(sent, at, Duration::ZERO, ttl);
            self.extend(valid_until);
            let (client, lock, token) = (caller.client, self.lease.lock_name.clone(), self.lease.fencing_token);
            caller.journal.note(Record::Renewed(Renewed { client, lock, token, sent, at, valid_until }));
        }
    }

    /// A stream said so.
    pub(super) fn lost(&self, caller: &Caller, lost: &v1::Lost, at: Nanos) {
        let (lock, token) = (self.lease.lock_name.clone(), self.lease.fencing_token);
        let successor = (lost.successor_token != 0).then_some(lost.successor_token);
        self.lose(caller, Lost { client: caller.client, lock, token, at, cause: cause(lost.end()), successor });
    }

    /// Looks at the clock.
    pub(super) fn is_valid(&self) -> bool {
        !self.is_lost() && clock::now() < self.valid_until()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Lost is final; the first to know writes it down.
    pub(super) fn lose(&self, caller: &Caller, lost: Lost) {
        if !self.lost.swap(true, Ordering::Relaxed) {
            caller.journal.note(Record::Lost(lost));
        }
    }

    /// It is over by its holder's own reckoning.
    pub(super) fn run_out(&self, caller: &Caller) {
        let (lock, token) = (self.lease.lock_name.clone(), self.lease.fencing_token);
        let cause = "deadline".to_owned();
        self.lose(caller, Lost { client: caller.client, lock, token, at: clock::now(), cause, successor: None });
    }

    /// Waits for the end of it, whatever brings it, no longer than so long. True if it is over.
    pub(super) async fn over_within(&self, caller: &Caller, time: Duration) -> bool {
        let bound = clock::now() + clock::nanos(time);
        loop {
            if self.is_lost() {
                return true;
            }
            if !self.is_valid() {
                self.run_out(caller);
                return true;
            }
            let left = clock::until(bound);
            if left.is_zero() {
                return false;
            }
            tokio::time::sleep(left.min(clock::until(self.valid_until())).clamp(MOMENT, LOOK)).await;
        }
    }
}

const MOMENT: Duration = Duration::from_millis(1);
const LOOK: Duration = Duration::from_millis(50);
