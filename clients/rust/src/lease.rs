//! The state of one lease: until when it is valid, and whether it is lost.
//!
//! Lost is final, whether the server reported it or the validity ended. Every read and every renewal checks the clock
//! first, so a process that was paused past the end finds its lease lost whatever its timers say, and a late renewal
//! never revives it.

use crate::clock::Moment;
use crate::v1;
use crate::validity::{Reading, is_overdue};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// The status of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// Held, and renewals arrive.
    Held,
    /// Still held, but renewals fail. Goes back to `Held` when one succeeds.
    AtRisk {
        /// When the lease ends if no renewal succeeds.
        valid_until: Moment,
    },
    /// Lost. This is final.
    Lost(LockLost),
}

/// A lock is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockLost {
    /// The cause.
    pub cause: LossCause,
    /// The fencing token of the lease that holds the lock now, if the server reported it.
    pub successor_token: Option<u64>,
}

/// Why a lock is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossCause {
    /// The validity ended by the local clock before a renewal succeeded: the server was unreachable, or this process
    /// was paused for too long.
    ValidityOver,
    /// The server reports that the lease expired.
    Expired,
    /// The server revoked the lease, for example because an operator forced its release.
    Revoked,
    /// The server reports that another lease of the lock was granted since.
    Superseded,
    /// The server does not know the lease: it ended longer ago than the server remembers.
    Unknown,
    /// Released, by this process or another one that knows the lease id.
    Released,
    /// This process stopped renewing the lease ([`Lock::into_lease`](crate::Lock::into_lease)).
    Detached,
    /// The lock name or the lease id breaks the rules of the API ([`Client::keep`](crate::Client::keep)).
    Invalid,
}

impl LockLost {
    pub(crate) fn new(cause: LossCause, successor_token: u64) -> Self {
        Self { cause, successor_token: (successor_token != 0).then_some(successor_token) }
    }

    /// From the server's report of the end of a lease.
    pub(crate) fn from_server(end: v1::LeaseEnd, successor_token: u64) -> Self {
        let cause = match end {
            v1::LeaseEnd::Released => LossCause::Released,
            v1::LeaseEnd::Expired => LossCause::Expired,
            v1::LeaseEnd::Revoked => LossCause::Revoked,
            v1::LeaseEnd::Superseded => LossCause::Superseded,
            v1::LeaseEnd::Unspecified | v1::LeaseEnd::Unknown => LossCause::Unknown,
        };
        Self::new(cause, successor_token)
    }
}

impl std::fmt::Display for LockLost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.cause {
            LossCause::ValidityOver => "lock lost: its validity ended before a renewal got through",
            LossCause::Expired => "lock lost: the lease expired",
            LossCause::Revoked => "lock lost: the lease was revoked",
            LossCause::Superseded => "lock lost: another lease was granted since",
            LossCause::Unknown => "lock lost: the server knows nothing of the lease",
            LossCause::Released => "lock not held: it was released",
            LossCause::Detached => "lock not kept: its lease was handed on",
            LossCause::Invalid => "lock not kept: its lock name or its lease id is not valid",
        })
    }
}

impl std::error::Error for LockLost {}

/// By how much the attempt number of attachments jumps when another process has used higher numbers. Those count the
/// sessions on which that process kept this lease, which are very unlikely to be so many.
const ATTEMPT_JUMP: u32 = 1 << 16;
/// The maximum number of jumps. Each is twice the previous one, since the other process may have jumped itself.
const JUMPS_MAX: u32 = 8;

/// Identifies a lease within this process.
pub(crate) type LeaseKey = u64;

/// A lease at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    pub(crate) valid_until: Moment,
    /// The full TTL, as far as known.
    pub(crate) ttl: Duration,
    /// When it was last attached to a session.
    pub(crate) attached: Moment,
    /// Whether the server has reported since the last renewal that its store is unreachable.
    pub(crate) store_unreachable: bool,
    pub(crate) status: Status,
}

impl Snapshot {
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.status, Status::Lost(_))
    }

    /// Whether it has missed a renewal.
    pub(crate) fn is_overdue(&self, now: Moment) -> bool {
        !self.is_lost() && is_overdue(self.valid_until, now, self.ttl)
    }
}

/// One lease of this process, shared by its lock, its handles and the tasks that renew it.
pub(crate) struct LeaseState {
    pub(crate) key: LeaseKey,
    pub(crate) name: String,
    /// A secret: never logged.
    pub(crate) lease_id: String,
    pub(crate) grant_id: String,
    pub(crate) token: u64,
    /// The attempt number of the latest attachment.
    attachment: AtomicU32,
    /// Whether a session of this process has ever renewed it.
    kept: AtomicBool,
    /// How often it was attached again after another process had attached it.
    reattached: AtomicU32,
    /// Whether the session renews it.
    on_stream: AtomicBool,
    /// Locked for a few instructions only, never across an await.
    known: Mutex<Snapshot>,
    changed: watch::Sender<()>,
}

impl LeaseState {
    pub(crate) fn new(key: LeaseKey, lease: v1::Lease, reading: Reading, full_ttl: Duration) -> Self {
        let ttl = full_ttl.max(reading.ttl);
        Self {
            key,
            name: lease.lock_name,
            lease_id: lease.lease_id,
            grant_id: lease.grant_id,
            token: lease.fencing_token,
            attachment: AtomicU32::new(0),
            kept: AtomicBool::new(false),
            reattached: AtomicU32::new(0),
            on_stream: AtomicBool::new(true),
            known: Mutex::new(Snapshot {
                valid_until: reading.valid_until(),
                ttl,
                attached: reading.read,
                store_unreachable: false,
                status: Status::Held,
            }),
            changed: watch::Sender::new(()),
        }
    }

    /// A lease granted on a session; the grant is its first attachment.
    pub(crate) fn attached_by_grant(mut self) -> Self {
        (self.attachment, self.kept) = (AtomicU32::new(1), AtomicBool::new(true));
        self
    }

    /// A lease that is lost from the start.
    pub(crate) fn already_lost(mut self, cause: LossCause) -> Self {
        let known = self.known.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.status = Status::Lost(LockLost::new(cause, 0));
        self
    }

    /// Checks the clock and returns the state.
    pub(crate) fn snapshot(&self, now: Moment) -> Snapshot {
        self.update(now, |_| {})
    }

    /// Applies a change unless the lease is lost, and notifies watchers of a new status.
    fn update(&self, now: Moment, change: impl FnOnce(&mut Snapshot)) -> Snapshot {
        let (before, after) = {
            let mut guard = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let before = guard.status;
            if !matches!(before, Status::Lost(_)) {
                if now >= guard.valid_until {
                    guard.status = Status::Lost(LockLost::new(LossCause::ValidityOver, 0));
                } else {
                    change(&mut guard);
                }
            }
            (before, *guard)
        };
        if before != after.status {
            self.changed.send_replace(());
        }
        after
    }

    pub(crate) fn status(&self, now: Moment) -> Status {
        self.snapshot(now).status
    }

    pub(crate) fn lost(&self, now: Moment) -> Option<LockLost> {
        match self.snapshot(now).status {
            Status::Lost(lost) => Some(lost),
            Status::Held | Status::AtRisk { .. } => None,
        }
    }

    /// How long it is still valid; `None` if it is lost.
    pub(crate) fn valid_for(&self, now: Moment) -> Option<Duration> {
        let known = self.snapshot(now);
        (!known.is_lost()).then(|| known.valid_until.since(now))
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.snapshot(Moment::now()).ttl
    }

    /// Applies a renewal. The end of the validity only moves forward.
    pub(crate) fn renewed(&self, reading: Reading) {
        let until = reading.valid_until();
        self.update(reading.read, |known| {
            known.ttl = known.ttl.max(reading.ttl);
            if until > known.valid_until {
                known.valid_until = until;
                known.status = Status::Held;
                known.store_unreachable = false;
            }
        });
    }

    /// Renewals fail.
    pub(crate) fn at_risk(&self, now: Moment) {
        self.update(now, |known| known.status = Status::AtRisk { valid_until: known.valid_until });
    }

    /// Renewals fail, and the server reports its store as the cause.
    pub(crate) fn store_unreachable(&self, now: Moment) {
        self.at_risk(now);
        self.update(now, |known| known.store_unreachable = true);
    }

    /// Ends the lease. Returns whether it was not lost before.
    pub(crate) fn end(&self, lost: LockLost) -> bool {
        let mut news = false;
        self.update(Moment::now(), |known| {
            known.status = Status::Lost(lost);
            news = true;
        });
        news
    }

    /// Starts a new attachment and returns its attempt number.
    pub(crate) fn next_attachment(&self, now: Moment) -> u32 {
        self.update(now, |known| known.attached = now);
        self.attachment.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// A session of this process has renewed it.
    pub(crate) fn mark_kept(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    /// Whether to attach the lease again after another process has attached it: once, if this process had kept it.
    pub(crate) fn may_reattach(&self) -> bool {
        // This process had the lease and lost it: it must not compete with a process that received the lease since.
        if self.kept.load(Ordering::Relaxed) {
            return self.reattached.fetch_add(1, Ordering::Relaxed) == 0;
        }
        // Refused from the start: the previous process left without detaching, and its attempt numbers are higher.
        let jumps = self.reattached.fetch_add(1, Ordering::Relaxed);
        if jumps >= JUMPS_MAX {
            return false;
        }
        self.attachment.fetch_add(ATTEMPT_JUMP << jumps, Ordering::Relaxed);
        true
    }

    /// Takes the lease off the session, which no longer renews it.
    pub(crate) fn leave_stream(&self) {
        self.on_stream.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_on_stream(&self) -> bool {
        self.on_stream.load(Ordering::Relaxed)
    }

    /// The attempt number of the latest attachment.
    pub(crate) fn attachment(&self) -> u32 {
        self.attachment.load(Ordering::Relaxed)
    }

    /// Notified at every change of the status.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl std::fmt::Debug for LeaseState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Lease");
        debug.field("lock_name", &self.name).field("grant_id", &self.grant_id).field("token", &self.token);
        debug.field("status", &self.status(Moment::now())).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
