//! State of one client that the transport and the calls of a session share: whether it reads, and whether calls wait.

use crate::sync::{AtomicUsize, Mutex, Ordering};
use tokio_util::sync::CancellationToken;

/// A session's client.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// 1 while the client does not read. Checked with each message.
    stalled: AtomicUsize,
    /// Cancelled when the client reads again.
    stall: Mutex<CancellationToken>,
    waiting: AtomicUsize,
}

impl Client {
    /// The client does not read: its calls decline offers.
    pub(super) fn stalls(&self) {
        *self.stall.lock() = CancellationToken::new();
        self.stalled.store(1, Ordering::Relaxed);
    }

    /// The client reads.
    pub(super) fn reads(&self) {
        if self.is_stalled() {
            self.stalled.store(0, Ordering::Relaxed);
            self.stall.lock().cancel();
        }
    }

    /// Whether the client does not read.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed) == 1
    }

    /// A token that is cancelled when the client reads again.
    pub(super) fn stall(&self) -> CancellationToken {
        self.stall.lock().clone()
    }

    /// Sets the number of calls of the session that may wait.
    pub(super) fn set_waiting(&self, calls: usize) {
        self.waiting.store(calls, Ordering::Relaxed);
    }

    /// Whether any call of the session may wait.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}
