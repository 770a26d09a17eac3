//! A handle to a held lock: its token, whether it is still valid, and a future that resolves when it is lost.

use crate::clock::Moment;
use crate::core::Core;
use crate::lease::LeaseState;
use crate::mode::Mode;
use crate::status::{LockLost, Status};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A held lock as the protected work sees it. Cheap to clone. Dropping it does not release the lock.
#[derive(Clone)]
pub struct Held {
    pub(crate) state: Arc<LeaseState>,
    pub(crate) core: Arc<Core>,
    pub(crate) permits: u32,
}

impl Held {
    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The fencing token: higher than that of every earlier grant of the lock. Send it with every write to the store
    /// that the lock protects, and have the store refuse lower tokens. The token, not the lease, stops a holder that
    /// was paused. [`try_upgrade`](crate::Lock::try_upgrade) changes it, nothing else.
    pub fn token(&self) -> u64 {
        self.state.token()
    }

    /// The public id of the grant. Store it with the token.
    pub fn grant_id(&self) -> &str {
        &self.state.grant_id
    }

    /// Which others it excludes. [`downgrade`](crate::Lock::downgrade) and [`try_upgrade`](crate::Lock::try_upgrade)
    /// change it.
    pub fn mode(&self) -> Mode {
        self.state.mode().unwrap_or_default()
    }

    /// How many permits of a [`semaphore`](crate::Acquire::semaphore) it has; 0 if the lock is held as none.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Its slot, if it has one permit of a [`semaphore`](crate::Acquire::semaphore): a number that no other holder has,
    /// the lowest that was free, from 1 to the limit. For what exists so many times: ids of workers, ports, seats of a
    /// licence.
    pub fn slot(&self) -> Option<u32> {
        self.state.slot
    }

    /// How long the lease lasts without a renewal.
    pub fn ttl(&self) -> Duration {
        self.state.ttl()
    }

    /// Whether the lease is valid by the local clock, which is read on each call. Once false, it stays false.
    pub fn is_valid(&self) -> bool {
        self.state.valid_for(Moment::now()).is_some()
    }

    /// How long the lease is still valid without another renewal; zero if it is lost.
    pub fn valid_for(&self) -> Duration {
        self.state.valid_for(Moment::now()).unwrap_or_default()
    }

    /// Whether the lock reaches its [`max_hold`](crate::Acquire::max_hold): no renewal extends it any more, and it is
    /// lost when [`valid_for`](Self::valid_for) is over.
    pub fn reaches_max_hold(&self) -> bool {
        self.state.snapshot(Moment::now()).bounded
    }

    /// The current status.
    pub fn status(&self) -> Status {
        self.state.status(Moment::now())
    }

    /// A stream of status changes.
    pub fn status_changes(&self) -> StatusChanges {
        StatusChanges { held: self.clone(), last: Some(Status::Held) }
    }

    /// Resolves when the lock is no longer held: as soon as the server reports it, at the latest when its validity ends
    /// by the local clock. After [`release`](crate::Lock::release) it resolves with
    /// [`LossCause::Released`](crate::LossCause). It may be called any number of times; the future borrows nothing and
    /// is cancel-safe.
    pub fn lost(&self) -> impl Future<Output = LockLost> + Send + 'static + use<> {
        let held = self.clone();
        async move {
            let mut changes = held.state.changes();
            loop {
                match held.state.status(Moment::now()) {
                    Status::Lost(lost) => return lost,
                    Status::Held | Status::AtRisk { .. } => held.change_or_end(&mut changes).await,
                }
            }
        }
    }

    /// Whether a server has said that somebody waits whom this lock excludes. Only if its request had
    /// [`tell_when_wanted`](crate::Acquire::tell_when_wanted). Once true, it stays true.
    pub fn is_wanted(&self) -> bool {
        self.state.snapshot(Moment::now()).wanted.is_some()
    }

    /// Resolves when a server says that somebody waits whom this lock excludes, with the mode in which it is waited
    /// for; with `None` when the lock is lost before that. Only if its request had
    /// [`tell_when_wanted`](crate::Acquire::tell_when_wanted). It is a hint, which may be lost when another server
    /// takes over: do not rely on it. The future borrows nothing and is cancel-safe.
    pub fn wanted(&self) -> impl Future<Output = Option<Mode>> + Send + 'static + use<> {
        let held = self.clone();
        async move {
            let mut changes = held.state.changes();
            loop {
                let known = held.state.snapshot(Moment::now());
                if known.wanted.is_some() || known.is_lost() {
                    return known.wanted.filter(|_| !known.is_lost());
                }
                held.change_or_end(&mut changes).await;
            }
        }
    }

    /// Waits for a change or the end of the validity. Cancel-safe.
    async fn change_or_end(&self, changes: &mut tokio::sync::watch::Receiver<()>) {
        // One millisecond more, the resolution of timers. Timers do not count suspend, but the keep-alive task notices
        // the loss within a second after the machine resumes.
        let end = self.core.sleep(self.valid_for().saturating_add(Duration::from_millis(1)));
        tokio::select! {
            _changed = changes.changed() => {} // never an error: the sender is in `self`
            () = end => {}
        }
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.state.fmt(f)
    }
}

/// Reports changes of a lock's [`Status`], starting from [`Status::Held`]. Intermediate statuses may be skipped.
#[derive(Debug)]
pub struct StatusChanges {
    held: Held,
    last: Option<Status>,
}

impl StatusChanges {
    /// Waits for a status other than the last one; `None` after [`Status::Lost`]. Cancel-safe.
    pub async fn next(&mut self) -> Option<Status> {
        let last = self.last.clone()?;
        let mut changes = self.held.state.changes();
        loop {
            let status = self.held.status();
            if status != last {
                self.last = (!matches!(status, Status::Lost(_))).then(|| status.clone());
                return Some(status);
            }
            self.held.change_or_end(&mut changes).await;
        }
    }
}
