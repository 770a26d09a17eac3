//! The state of one lease: until when it is valid, and whether it is lost.
//!
//! Lost is final, whether the server reported it or the validity ended. Every read and every renewal checks the clock
//! first, so a process that was paused past the end finds its lease lost whatever its timers say, and a late renewal
//! never revives it.

use crate::clock::Moment;
use crate::describe::Described;
use crate::events;
use crate::mode::Mode;
use crate::status::{LockLost, Loss, LossCause, Status};
use crate::v1;
use crate::validity::{Reading, is_overdue};
use crate::values::Lease;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

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
    /// The highest TTL that a server has answered.
    pub(crate) ttl: Duration,
    /// When it was last attached to a session.
    pub(crate) attached: Moment,
    /// Whether the server has reported since the last renewal that its store is unreachable.
    pub(crate) store_unreachable: bool,
    at_risk: bool,
    /// Whether the last renewal answered less than the TTL: the lease ends by its `max_hold`, and misses no renewal.
    pub(crate) bounded: bool,
    /// The mode in which somebody waits whom it excludes, once the server has said so.
    pub(crate) wanted: Option<Mode>,
    lost: Option<Loss>,
}

impl Snapshot {
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Whether it has missed a renewal.
    pub(crate) fn is_overdue(&self, now: Moment) -> bool {
        !self.is_lost() && !self.bounded && is_overdue(self.valid_until, now, self.ttl)
    }
}

/// One lease of this process, shared by its lock, its handles and the tasks that renew it.
pub(crate) struct LeaseState {
    pub(crate) key: LeaseKey,
    pub(crate) name: String,
    /// A secret: never logged.
    pub(crate) lease_id: String,
    pub(crate) grant_id: String,
    /// A conversion changes it.
    token: AtomicU64,
    /// As on the wire: 0 if it is not known.
    mode: AtomicI32,
    pub(crate) slot: Option<u32>,
    /// Locked while a description is sent, so that descriptions arrive in the order of their numbers.
    pub(crate) described: tokio::sync::Mutex<Described>,
    /// The attempt number of the latest attachment.
    attachment: AtomicU32,
    /// Whether a session of this process has ever renewed it.
    kept: AtomicBool,
    /// How often its attempt number has jumped.
    jumps: AtomicU32,
    /// Whether the session renews it.
    on_stream: AtomicBool,
    /// Locked for a few instructions only, never across an await.
    known: Mutex<Snapshot>,
    changed: watch::Sender<()>,
}

impl LeaseState {
    pub(crate) fn new(key: LeaseKey, lease: Lease, reading: Reading) -> Self {
        Self {
            key,
            name: lease.lock_name,
            lease_id: lease.lease_id,
            grant_id: lease.grant_id,
            token: AtomicU64::new(lease.token),
            mode: AtomicI32::new(lease.mode.map_or(0, |mode| v1::LockMode::from(mode).into())),
            slot: lease.slot,
            described: tokio::sync::Mutex::new(Described::Unknown),
            attachment: AtomicU32::new(0),
            kept: AtomicBool::new(false),
            jumps: AtomicU32::new(0),
            on_stream: AtomicBool::new(true),
            known: Mutex::new(Snapshot {
                valid_until: reading.valid_until(),
                ttl: reading.ttl,
                attached: reading.read,
                store_unreachable: false,
                at_risk: false,
                bounded: false,
                wanted: None,
                lost: None,
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
        known.lost = Some(Loss::new(cause));
        self
    }

    /// Checks the clock and returns the state.
    pub(crate) fn snapshot(&self, now: Moment) -> Snapshot {
        self.update(now, |_| {})
    }

    /// Applies a change unless the lease is lost, and notifies watchers of a new status and of waiters.
    fn update(&self, now: Moment, change: impl FnOnce(&mut Snapshot)) -> Snapshot {
        let (before, after) = {
            let mut guard = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let before = *guard;
            if !before.is_lost() {
                if now >= guard.valid_until {
                    let cause = if guard.bounded { LossCause::MaxHold } else { LossCause::Silence };
                    guard.lost = Some(Loss::new(cause));
                } else {
                    change(&mut guard);
                }
            }
            (before, *guard)
        };
        if (before.at_risk, before.lost, before.wanted) != (after.at_risk, after.lost, after.wanted) {
            self.changed.send_replace(());
        }
        if let (None, Some(loss)) = (before.lost, after.lost)
            && !matches!(loss.cause, LossCause::Released | LossCause::Detached)
        {
            events::lost(&self.lock_lost(loss));
        }
        after
    }

    pub(crate) fn status(&self, now: Moment) -> Status {
        let known = self.snapshot(now);
        match known.lost {
            Some(loss) => Status::Lost(self.lock_lost(loss)),
            None if known.at_risk => Status::AtRisk { valid_until: known.valid_until },
            None => Status::Held,
        }
    }

    pub(crate) fn lost(&self, now: Moment) -> Option<LockLost> {
        self.snapshot(now).lost.map(|loss| self.lock_lost(loss))
    }

    pub(crate) fn lock_lost(&self, Loss { cause, successor_token }: Loss) -> LockLost {
        LockLost { name: self.name.clone(), token: self.token(), cause, successor_token }
    }

    pub(crate) fn token(&self) -> u64 {
        self.token.load(Ordering::Acquire)
    }

    /// `None` if it is not known.
    pub(crate) fn mode(&self) -> Option<Mode> {
        let mode = v1::LockMode::try_from(self.mode.load(Ordering::Acquire));
        mode.ok().and_then(Mode::of)
    }

    /// Its mode, and its token from now on.
    pub(crate) fn convert(&self, mode: Mode, token: u64) {
        self.token.store(token, Ordering::Release);
        self.mode.store(v1::LockMode::from(mode).into(), Ordering::Release);
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
        let (until, mut again, mut begins) = (reading.valid_until(), false, false);
        let known = self.update(reading.read, |known| {
            known.ttl = known.ttl.max(reading.ttl);
            let bounded = reading.ttl < known.ttl;
            begins = !std::mem::replace(&mut known.bounded, bounded) && bounded;
            if until > known.valid_until {
                again = known.at_risk;
                known.valid_until = until;
                known.at_risk = false;
                known.store_unreachable = false;
            }
        });
        if again {
            events::renewed_again(self);
        }
        if begins {
            events::bounded(self, known.valid_until.since(reading.read));
        }
    }

    /// Renewals fail.
    pub(crate) fn at_risk(&self, now: Moment, cause: &str) {
        let mut begins = false;
        let known = self.update(now, |known| begins = !std::mem::replace(&mut known.at_risk, true));
        if begins {
            events::renewals_fail(self, known.valid_until.since(now), cause);
        }
    }

    /// Renewals fail, and the server reports its store as the cause.
    pub(crate) fn store_unreachable(&self, now: Moment) {
        self.at_risk(now, "the server cannot reach its store");
        self.update(now, |known| known.store_unreachable = true);
    }

    /// Somebody waits whom it excludes.
    pub(crate) fn wanted(&self, now: Moment, mode: Mode) {
        self.update(now, |known| known.wanted = Some(mode));
    }

    /// Nobody has had the lease before, nor described it.
    pub(crate) fn is_new(&self) {
        if let Ok(mut described) = self.described.try_lock() {
            *described = Described::Last(0);
        }
    }

    /// Ends the lease. Returns whether it was not lost before.
    pub(crate) fn end(&self, loss: Loss) -> bool {
        let mut news = false;
        self.update(Moment::now(), |known| {
            known.lost = Some(loss);
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

    /// Whether to attach the lease again after another process has attached it: once on each session, if this process
    /// had kept it. `repeated` is whether the lost attachment was such a repeat.
    pub(crate) fn may_reattach(&self, repeated: bool) -> bool {
        // This process had the lease and lost it: it must not compete with a process that received the lease since.
        if self.kept.load(Ordering::Relaxed) {
            return !repeated;
        }
        // Refused from the start: the previous process left without detaching, and its attempt numbers are higher.
        let jumps = self.jumps.fetch_add(1, Ordering::Relaxed);
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

    /// Notified at every change of the status, and when somebody waits.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl std::fmt::Debug for LeaseState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Lease");
        debug.field("lock_name", &self.name).field("grant_id", &self.grant_id).field("token", &self.token());
        debug.field("status", &self.status(Moment::now())).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
