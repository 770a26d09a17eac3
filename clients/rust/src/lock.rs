//! A lock held by this process: a lease, kept alive until it is given back.

use crate::client::Shared;
use crate::clock::Moment;
use crate::held::Held;
use crate::lease::{LeaseState, LossCause, Lost};
use crate::release::{ReleaseError, Released};
use crate::releasing::Releasing;
use crate::v1;
use std::ops::Deref;
use std::sync::Arc;

/// A lock held by this process, kept alive in the background. What can be asked of it is in [`Held`], to which it
/// derefs.
///
/// Give it back with [`release`](Self::release). Dropped, it is given back in the background, best effort: if the
/// process ends first, the lease ends by its TTL ([`Client::settle`](crate::Client::settle) waits). Either way stop the
/// work that the lock protects first: once a release is sent the lock may pass on at any moment.
#[must_use = "a lock that is dropped is released"]
pub struct Lock {
    held: Held,
    previous_end: v1::LeaseEnd,
    shared: Arc<Shared>,
    /// Still to be given back by this value.
    owed: bool,
}

impl Lock {
    /// Starts to keep a lease alive.
    pub(crate) fn start(shared: Arc<Shared>, state: Arc<LeaseState>, previous_end: v1::LeaseEnd) -> Self {
        shared.keeper.add(state.clone());
        let held = Held { state, core: shared.core.clone() };
        Self { held, previous_end, shared, owed: true }
    }

    /// The lease id: proof of ownership, and a secret. Whoever knows it can renew and release the lease.
    pub fn lease_id(&self) -> &str {
        &self.held.state.lease_id
    }

    /// How the lock's previous lease ended. Anything but released is a hint to check what its holder left behind.
    pub fn previous_end(&self) -> v1::LeaseEnd {
        self.previous_end
    }

    /// A look at this lock, for the work that it protects.
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Gives the lock back. Stop the work that it protects first. From this call on the lease is never renewed again,
    /// and [`is_valid`](Held::is_valid) is false for every handle.
    ///
    /// Repeated with the same ids while its outcome is unknown, within the client's bound. Dropped, it goes on in the
    /// background.
    pub async fn release(self) -> Result<Released, ReleaseError> {
        // Nothing is awaited before it is on its way.
        let mut lock = self;
        let releasing = lock.start_release();
        drop(lock);
        releasing.finish().await
    }

    /// Stops keeping the lease alive and hands it to the caller, who now has to renew and release it. Its `ttl` is what
    /// is left of it by this process' reckoning, counted from now. Handles see it end as [`LossCause::Detached`].
    pub fn into_lease(mut self) -> v1::Lease {
        let left = self.held.valid_for();
        self.stop(LossCause::Detached);
        let state = &self.held.state;
        v1::Lease {
            lock_name: state.name.clone(),
            lease_id: state.lease_id.clone(),
            grant_id: state.grant_id.clone(),
            fencing_token: state.token,
            ttl: crate::proto::wire(left),
        }
    }

    /// Stops keeping the lease alive and forgets it: it ends by its TTL, unless somebody who knows its id renews it.
    pub fn detach(self) {
        drop(self.into_lease());
    }

    /// Ends the keeping. After this no renewal is sent. What is owed is owed no more.
    fn stop(&mut self, cause: LossCause) {
        self.owed = false;
        // In this order: whoever attaches the lease at this moment either sees its end or is undone by the removal.
        self.held.state.end(Lost::new(cause, 0));
        self.shared.keeper.remove(self.held.state.key);
    }

    fn start_release(&mut self) -> Releasing {
        self.owed = false;
        Releasing::start(self.shared.core.clone(), self.shared.keeper.clone(), &self.held.state)
    }
}

impl Deref for Lock {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.held.fmt(f)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.owed {
            return;
        }
        match self.held.state.lost(Moment::now()).map(|lost| lost.cause) {
            // It is held; or it is lost by our reckoning, and for all we know the server still has it.
            None | Some(LossCause::ValidityOver) => drop(self.start_release()), // it goes on
            Some(_told) => self.stop(LossCause::Released),
        }
    }
}
