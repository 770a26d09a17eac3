//! Keeps the leases of a client alive.

use crate::core::Core;
use crate::lease::{LeaseKey, LeaseState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Keeper {
    next_key: AtomicU64,
}

impl Keeper {
    pub(crate) fn new(_core: Arc<Core>) -> Arc<Self> {
        Arc::new(Self { next_key: AtomicU64::new(1) })
    }

    pub(crate) fn next_key(&self) -> LeaseKey {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn add(&self, _lease: Arc<LeaseState>) {}

    pub(crate) fn remove(&self, _key: LeaseKey) {}

    pub(crate) fn client_gone(&self) {}
}
