//! Streams of clients whose permission may end while the stream is open: their credentials expire, or the rules change.
//!
//! The server then ends the stream, or stops renewing a lease. It revokes nothing: the lease lasts until its TTL is
//! over, so a mistake in the rules can be repaired before a fleet loses its locks.

use super::{ToClient, keeping::Keeping};
use crate::{
    domain::{limits::PERMISSION_CHECK_PERIOD, name::LockName},
    locks::{LocksError, Permission},
    store::Store,
};
use std::{borrow::Cow, sync::Arc};
use tokio::time::Instant;

/// The permission of a stream's client, if it is restricted.
pub(super) struct Restricted {
    permission: Option<Arc<dyn Permission>>,
    look_at: Instant,
    /// Why the stream ends, if its client may not go on.
    denied: Option<LocksError>,
}

impl Restricted {
    pub(super) fn new(permission: Option<Arc<dyn Permission>>, now: Instant) -> Self {
        Self { permission, look_at: now + PERMISSION_CHECK_PERIOD, denied: None }
    }

    /// When [`Self::look`] is due; never, if nothing is restricted.
    pub(super) fn next_look_at(&self) -> Option<Instant> {
        self.permission.as_ref().map(|_| self.look_at)
    }

    /// Whether the stream may stay open, if it is time to look.
    pub(super) fn look(&mut self, now: Instant) -> Result<(), LocksError> {
        if let Some(permission) = self.permission.as_ref().filter(|_| self.look_at <= now && self.denied.is_none()) {
            self.look_at = now + PERMISSION_CHECK_PERIOD;
            self.denied = permission.stay_open().err();
        }
        self.denied.clone().map_or(Ok(()), Err)
    }

    /// Whether the stream ends because its client may not go on.
    pub(super) fn is_over(&self) -> bool {
        self.denied.is_some()
    }

    /// The stream keeps so many leases now.
    pub(super) fn keeps(&self, leases: usize) {
        if let Some(permission) = &self.permission {
            permission.keeps(leases);
        }
    }

    fn may_keep(&self, name: &LockName) -> bool {
        self.permission.as_ref().is_none_or(|permission| permission.may_keep(name))
    }
}

impl<S: Store, M: From<ToClient>> Keeping<S, M> {
    /// Ends the stream, because its client may not go on.
    pub(in crate::locks) fn deny(&mut self, error: LocksError, now: Instant) {
        self.restricted.look_at = now;
        self.restricted.denied = Some(error);
    }

    /// Separates the leases that the client may keep from the others, which are tried again with the next answer. If
    /// there are any, the stream is looked at now: if it ends soon enough, the client attaches the leases in time.
    pub(super) fn only_permitted<'a>(&mut self, handles: &'a [u32], now: Instant) -> (Cow<'a, [u32]>, Vec<u32>) {
        let may_keep = |handle: &u32| self.leases.get(handle).is_none_or(|lease| self.restricted.may_keep(&lease.name));
        if handles.iter().all(&may_keep) {
            return (Cow::Borrowed(handles), Vec::new());
        }
        let (permitted, forbidden): (Vec<u32>, Vec<u32>) = handles.iter().copied().partition(may_keep);
        self.restricted.look_at = now;
        for handle in &forbidden {
            self.retry_at_once(*handle, now);
        }
        (Cow::Owned(permitted), forbidden)
    }
}
