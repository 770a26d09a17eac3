//! A lock held by this process: a lease that is renewed until it is released.

use crate::client::Shared;
use crate::clock::Moment;
use crate::held::Held;
use crate::lease::LeaseState;
use crate::mode::Mode;
use crate::release::{ReleaseError, Released};
use crate::releasing::Releasing;
use crate::status::{Loss, LossCause};
use crate::values::{Lease, LeaseEnd};
use std::ops::Deref;
use std::sync::Arc;

/// A lock held by this process, renewed in the background. Derefs to [`Held`], which has the token and the status.
///
/// Call [`release`](Self::release) to release it. Dropped, it is released in the background, best effort: if the
/// process ends first, the lease ends by its TTL ([`Client::flush`](crate::Client::flush) waits for the release).
/// Either way stop the protected work first: the lock may pass to another holder as soon as the release is sent.
#[must_use = "a lock that is dropped is released"]
pub struct Lock {
    held: Held,
    previous_end: Option<LeaseEnd>,
    shared: Arc<Shared>,
    /// Whether this value still has to release the lease.
    needs_release: bool,
    /// Whether the server keeps the lock unavailable if the lease ends without a release.
    leaves_delay: bool,
}

impl Lock {
    /// Starts renewing a lease.
    pub(crate) fn start(shared: Arc<Shared>, state: Arc<LeaseState>, previous_end: Option<LeaseEnd>) -> Self {
        shared.keeper.add(state.clone());
        let held = Held { state, core: shared.core.clone(), permits: 0 };
        Self { held, previous_end, shared, needs_release: true, leaves_delay: false }
    }

    /// Whether its request had a `lock_delay`.
    pub(crate) fn set_leaves_delay(&mut self, leaves_delay: bool) {
        self.leaves_delay = leaves_delay;
    }

    /// How many permits of a semaphore it has.
    pub(crate) fn set_permits(&mut self, permits: u32) {
        self.held.permits = permits;
    }

    /// The mode of its request, for a server that did not tell the mode of the lease.
    pub(crate) fn asked_for(&self, mode: Mode) {
        if self.held.state.mode().is_none() {
            self.held.state.convert(mode, self.held.token());
        }
    }

    /// The lease id. It is a secret: whoever knows it can renew and release the lease.
    pub fn lease_id(&self) -> &str {
        &self.held.state.lease_id
    }

    /// How the lock's previous lease ended; `None` if no end is known, as servers remember it for 10 s. Unless it was
    /// released, check what its holder left behind.
    pub fn previous_end(&self) -> Option<LeaseEnd> {
        self.previous_end
    }

    /// A handle for the protected work.
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Releases the lock. Stop the protected work first. From this call on the lease is never renewed, and
    /// [`is_valid`](Held::is_valid) is false for every handle.
    ///
    /// Retried with the same ids while the outcome is unknown, up to the client's bound. Dropped, it goes on in the
    /// background. If the lock is lost already, this returns at once with what is known of its end.
    pub async fn release(self) -> Result<Released, ReleaseError> {
        // The release is sent before the first await.
        match self.begin_release() {
            Ok(releasing) => releasing.finish().await,
            Err(known) => Ok(known),
        }
    }

    /// Sends the release. `Err` has how a lock ended that is lost already.
    pub(crate) fn begin_release(mut self) -> Result<Releasing, Released> {
        if let Some(lost) = self.held.state.lost(Moment::now()) {
            // Dropping it releases what the server may still have.
            return Err(lost.into());
        }
        Ok(self.start_release())
    }

    /// Stops renewing the lease and hands it to the caller, who must now renew and release it. Its `ttl` is the
    /// remaining validity by the local clock, counted from now. Handles report [`LossCause::Detached`].
    pub fn into_lease(mut self) -> Lease {
        let left = self.held.valid_for();
        self.stop(LossCause::Detached);
        let state = &self.held.state;
        Lease {
            lock_name: state.name.clone(),
            lease_id: state.lease_id.clone(),
            grant_id: state.grant_id.clone(),
            token: state.token(),
            ttl: left,
            permits: self.held.permits,
            slot: state.slot,
            mode: state.mode(),
        }
    }

    /// Stops renewing the lease and leaves it: it ends by its TTL, unless another process that knows its id renews it.
    pub fn detach(self) {
        drop(self.into_lease());
    }

    /// Stops renewing: no renewal is sent after this, and no release either.
    fn stop(&mut self, cause: LossCause) {
        self.needs_release = false;
        // In this order: a concurrent attach either sees that the lease has ended or is undone by the removal.
        self.held.state.end(Loss::new(cause));
        self.shared.keeper.remove(self.held.state.key);
    }

    fn start_release(&mut self) -> Releasing {
        self.needs_release = false;
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
        if !self.needs_release {
            return;
        }
        match self.held.state.lost(Moment::now()).map(|lost| lost.cause) {
            // Held; or lost by the local clock, in which case the server may still have it. The release goes on in the
            // background.
            None | Some(LossCause::Silence | LossCause::MaxHold) => drop(self.start_release()),
            // The server is told that the work has stopped.
            Some(LossCause::Expired | LossCause::Revoked) if self.leaves_delay => drop(self.start_release()),
            Some(_told) => self.stop(LossCause::Released),
        }
    }
}
