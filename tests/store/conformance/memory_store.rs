//! The memory store with a clock that the test moves.

use crate::{
    bench::{Harness, limits},
    notices::RecordingNotices,
};
use fencepost::testing::{
    clock::{Clock, ManualClock},
    domain::time::StoreTime,
    store::memory::MemoryStore,
};
use std::{sync::Arc, time::Duration};

pub(crate) struct MemoryHarness {
    clock: Arc<ManualClock>,
    store: MemoryStore,
    notices: Arc<RecordingNotices>,
}

impl Harness for MemoryHarness {
    type Store = MemoryStore;

    async fn start() -> Self {
        let clock = Arc::new(ManualClock::at(StoreTime::from_micros(1_800_000_000_000_000)));
        let notices = Arc::new(RecordingNotices::default());
        let as_clock: Arc<dyn Clock> = clock.clone();
        let store = MemoryStore::new(as_clock, &limits(), notices.clone());
        Self { clock, store, notices }
    }

    fn store(&self) -> &MemoryStore {
        &self.store
    }

    fn notices(&self) -> &Arc<RecordingNotices> {
        &self.notices
    }

    async fn done(&self) {}

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
        while self.store.apply_due_timers() {}
    }
}
