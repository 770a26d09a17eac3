//! A look at a held lock: its token, whether it is still valid, and a future that resolves when it is lost.

use crate::clock::Moment;
use crate::core::Core;
use crate::lease::{LeaseState, Lost, Status};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A lock as the work that it protects sees it. Cheap to clone; keeps nothing alive and gives nothing back.
#[derive(Clone)]
pub struct Held {
    pub(crate) state: Arc<LeaseState>,
    pub(crate) core: Arc<Core>,
}

impl Held {
    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The fencing token: higher than that of every earlier grant of the lock. Send it with every write to the store
    /// that the lock protects, and have the store refuse lower ones. That, not the lease, stops a holder that was
    /// paused.
    pub fn token(&self) -> u64 {
        self.state.token
    }

    /// The public name of the grant. Keep it beside the token in the store.
    pub fn grant_id(&self) -> &str {
        &self.state.grant_id
    }

    /// The TTL of the lease: how long it lasts without a renewal.
    pub fn ttl(&self) -> Duration {
        self.state.ttl()
    }

    /// Is the lease valid, by this process' own reckoning? Asks the clock each time. Never true again once false.
    pub fn is_valid(&self) -> bool {
        self.state.valid_for(Moment::now()).is_some()
    }

    /// How long the lease is still valid if no renewal gets through any more; zero if it is lost.
    pub fn valid_for(&self) -> Duration {
        self.state.valid_for(Moment::now()).unwrap_or_default()
    }

    /// How the lock is doing.
    pub fn status(&self) -> Status {
        self.state.status(Moment::now())
    }

    /// Watches the status change.
    pub fn status_changes(&self) -> StatusChanges {
        StatusChanges { held: self.clone(), last: Some(Status::Held) }
    }

    /// Resolves when the lock is not held any more: as soon as the server says so, at the latest when its validity ends
    /// by this process' own reckoning. Call it as often as you like; the future borrows nothing, and dropping it leaves
    /// nothing behind. After [`release`](crate::Lock::release) it resolves with
    /// [`LossCause::Released`](crate::LossCause).
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + 'static + use<> {
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

    /// Waits for a change, or until it is time to look at the clock. Dropped, it leaves nothing behind.
    async fn change_or_end(&self, changes: &mut tokio::sync::watch::Receiver<()>) {
        // A millisecond more, since timers are that coarse. Should the machine be suspended meanwhile, which timers
        // do not count, the keep-alive task finds out within a second of its waking up.
        let end = self.core.sleep(self.valid_for().saturating_add(Duration::from_millis(1)));
        tokio::select! {
            _changed = changes.changed() => {} // never an error: this handle keeps the state
            () = end => {}
        }
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.state.fmt(f)
    }
}

/// Tells of every change of a lock's [`Status`] from [`Status::Held`] on. A status that was replaced before you asked
/// is skipped.
#[derive(Debug)]
pub struct StatusChanges {
    held: Held,
    last: Option<Status>,
}

impl StatusChanges {
    /// Waits for a status other than the last one told; `None` after [`Status::Lost`]. Dropped, it leaves nothing
    /// behind and misses nothing.
    pub async fn next(&mut self) -> Option<Status> {
        let last = self.last?;
        let mut changes = self.held.state.changes();
        loop {
            let status = self.held.status();
            if status != last {
                self.last = (!matches!(status, Status::Lost(_))).then_some(status);
                return Some(status);
            }
            self.held.change_or_end(&mut changes).await;
        }
    }
}
