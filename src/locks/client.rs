//! What a session's transport and its calls know of its client: whether it takes data, and whether calls wait for it.

use crate::sync::{AtomicUsize, Mutex, Ordering};
use tokio_util::sync::CancellationToken;

/// A session's client.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// 1 while it takes no data: asked with each message.
    stalled: AtomicUsize,
    /// Cancelled when it takes data again.
    stall: Mutex<CancellationToken>,
    waiting: AtomicUsize,
}

impl Client {
    /// The client takes no data: its calls decline what they are offered.
    pub(super) fn stalls(&self) {
        *self.stall.lock() = CancellationToken::new();
        self.stalled.store(1, Ordering::Relaxed);
    }

    /// The client takes data.
    pub(super) fn reads(&self) {
        if self.is_stalled() {
            self.stalled.store(0, Ordering::Relaxed);
            self.stall.lock().cancel();
        }
    }

    /// Whether the client takes no data.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed) == 1
    }

    /// What is cancelled when the client, which takes no data, does so again.
    pub(super) fn stall(&self) -> CancellationToken {
        self.stall.lock().clone()
    }

    /// Notes how many calls of the session may wait.
    pub(super) fn set_waiting(&self, calls: usize) {
        self.waiting.store(calls, Ordering::Relaxed);
    }

    /// Whether any call of the session may wait.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}
