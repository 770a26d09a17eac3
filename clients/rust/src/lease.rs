//! What this process knows of one lease: until when it is valid, and whether it is lost. Everything else looks here.
//!
//! Lost is final, whoever finds it: the server's word, or the end of the validity. Every look and every renewal checks
//! the clock first, so a process that was paused past the end finds its lease lost whatever its timers say, and no
//! renewal that comes in late revives it.

use crate::clock::Moment;
use crate::v1;
use crate::validity::{Reading, is_overdue};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// How a held lock is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It is held and being renewed.
    Held,
    /// It is still held, but renewals do not get through. It goes back to `Held` when one does.
    AtRisk {
        /// Until when it is valid if none does.
        valid_until: Moment,
    },
    /// It is lost. This is final.
    Lost(Lost),
}

/// That a lock is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// Why.
    pub cause: LossCause,
    /// The fencing token of the lease that holds the lock now, if the server said.
    pub successor_token: Option<u64>,
}

/// Why a lock is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossCause {
    /// Its validity ended, by this process' own reckoning, before a renewal got through: the server could not be
    /// reached, or this process was paused for too long.
    ValidityOver,
    /// The server says that it expired.
    Expired,
    /// The server took it back: an operator's force release, for one.
    Revoked,
    /// The server says that another lease of the lock was granted since.
    Superseded,
    /// The server knows nothing of it: it ended longer ago than the server remembers.
    Unknown,
    /// It was given back, by this process or by another that knows its lease id.
    Released,
    /// This process stopped keeping it ([`Lock::into_lease`](crate::Lock::into_lease)).
    Detached,
    /// What was to be kept is no lease: its lock name or its lease id breaks the rules of the API
    /// ([`Client::keep`](crate::Client::keep)).
    Invalid,
}

impl Lost {
    pub(crate) fn new(cause: LossCause, successor_token: u64) -> Self {
        Self { cause, successor_token: (successor_token != 0).then_some(successor_token) }
    }

    /// What the server says of the end of a lease.
    pub(crate) fn told(end: v1::LeaseEnd, successor_token: u64) -> Self {
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

impl std::fmt::Display for Lost {
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

impl std::error::Error for Lost {}

/// How far the numbers of attachments jump when another process has counted further. By how much is not known: it
/// counts the sessions on which that process kept this lease, which are hardly ever so many.
const PAST_OTHERS: u32 = 1 << 16;
/// So many jumps, each twice as far as the one before, since those who kept it before may have jumped themselves.
const JUMPS_MAX: u32 = 8;

/// Names a lease within this process.
pub(crate) type LeaseKey = u64;

/// What is known of a lease at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) valid_until: Moment,
    /// The full TTL, as far as it is known.
    pub(crate) ttl: Duration,
    /// When it was last attached to a stream.
    pub(crate) attached: Moment,
    /// Has the server said since the last renewal that its store is the trouble?
    pub(crate) store_unreachable: bool,
    pub(crate) status: Status,
}

impl Known {
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.status, Status::Lost(_))
    }

    /// Has it missed a renewal?
    pub(crate) fn is_overdue(&self, now: Moment) -> bool {
        !self.is_lost() && is_overdue(self.valid_until, now, self.ttl)
    }
}

/// One lease of this process, shared by its lock, its handles and what keeps it alive.
pub(crate) struct LeaseState {
    pub(crate) key: LeaseKey,
    pub(crate) name: String,
    /// A secret: never logged.
    pub(crate) lease_id: String,
    pub(crate) grant_id: String,
    pub(crate) token: u64,
    /// The number of the latest attachment.
    attachment: AtomicU32,
    /// Has a session of this process ever kept it?
    kept: AtomicBool,
    /// How often it was attached again after somebody else had attached it.
    reattached: AtomicU32,
    /// Is it for the session to renew it?
    on_stream: AtomicBool,
    /// Held for a few instructions only, never over an await.
    known: Mutex<Known>,
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
            known: Mutex::new(Known {
                valid_until: reading.valid_until(),
                ttl,
                attached: reading.read,
                store_unreachable: false,
                status: Status::Held,
            }),
            changed: watch::Sender::new(()),
        }
    }

    /// As granted on a session, which is its first attachment.
    pub(crate) fn attached_by_grant(mut self) -> Self {
        (self.attachment, self.kept) = (AtomicU32::new(1), AtomicBool::new(true));
        self
    }

    /// As lost from the start.
    pub(crate) fn lost_from_the_start(mut self, cause: LossCause) -> Self {
        let known = self.known.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.status = Status::Lost(Lost::new(cause, 0));
        self
    }

    /// Looks at the clock, and then at what is known.
    pub(crate) fn look(&self, now: Moment) -> Known {
        self.update(now, |_| {})
    }

    /// Changes what is known, unless the lease is lost, and tells those who watch of a new status.
    fn update(&self, now: Moment, change: impl FnOnce(&mut Known)) -> Known {
        let (before, after) = {
            let mut guard = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let before = guard.status;
            if !matches!(before, Status::Lost(_)) {
                if now >= guard.valid_until {
                    guard.status = Status::Lost(Lost::new(LossCause::ValidityOver, 0));
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
        self.look(now).status
    }

    pub(crate) fn lost(&self, now: Moment) -> Option<Lost> {
        match self.look(now).status {
            Status::Lost(lost) => Some(lost),
            Status::Held | Status::AtRisk { .. } => None,
        }
    }

    /// How long it is still valid, if it is.
    pub(crate) fn valid_for(&self, now: Moment) -> Option<Duration> {
        let known = self.look(now);
        (!known.is_lost()).then(|| known.valid_until.since(now))
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.look(Moment::now()).ttl
    }

    /// A renewal got through. Replaces the end only by a later one.
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

    /// Renewals do not get through.
    pub(crate) fn at_risk(&self, now: Moment) {
        self.update(now, |known| known.status = Status::AtRisk { valid_until: known.valid_until });
    }

    /// Renewals do not get through, and the server says that its store is why.
    pub(crate) fn store_unreachable(&self, now: Moment) {
        self.at_risk(now);
        self.update(now, |known| known.store_unreachable = true);
    }

    /// It is over. Says whether this was news.
    pub(crate) fn end(&self, lost: Lost) -> bool {
        let mut news = false;
        self.update(Moment::now(), |known| {
            known.status = Status::Lost(lost);
            news = true;
        });
        news
    }

    /// Starts a new attachment and says its number.
    pub(crate) fn next_attachment(&self, now: Moment) -> u32 {
        self.update(now, |known| known.attached = now);
        self.attachment.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// A session of this process has kept it.
    pub(crate) fn kept_by_us(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    /// Somebody else has attached it: whether it is to be attached again. Once, if this process had kept it.
    pub(crate) fn may_reattach(&self) -> bool {
        // A process that had it and lost it must not outdo whoever was given it since.
        if self.kept.load(Ordering::Relaxed) {
            return self.reattached.fetch_add(1, Ordering::Relaxed) == 0;
        }
        // Refused from the start: whoever kept it before is gone without a word, and had counted further.
        let jumps = self.reattached.fetch_add(1, Ordering::Relaxed);
        if jumps >= JUMPS_MAX {
            return false;
        }
        self.attachment.fetch_add(PAST_OTHERS << jumps, Ordering::Relaxed);
        true
    }

    /// The session is not to renew it any more.
    pub(crate) fn leave_stream(&self) {
        self.on_stream.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_on_stream(&self) -> bool {
        self.on_stream.load(Ordering::Relaxed)
    }

    /// The number of the latest attachment.
    pub(crate) fn attachment(&self) -> u32 {
        self.attachment.load(Ordering::Relaxed)
    }

    /// Wakes up at every change of the status.
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
