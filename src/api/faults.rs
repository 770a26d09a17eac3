//! Replies that get lost on demand, for tests of programs that take locks: `serve --test-faults`.

use crate::telemetry::metrics::OperationKind;
use std::{
    future::pending,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};
use tokio::sync::Notify;

/// The faults that were ordered.
#[derive(Debug, Default)]
pub struct Faults {
    /// Replies to lose.
    replies: AtomicUsize,
    cut: Notify,
}

impl Faults {
    /// Loses the reply to the next acquire, release or renewal that succeeds, and cuts all connections, so that its
    /// client has to ask again. Each call loses one reply.
    pub fn drop_reply(&self) {
        self.replies.fetch_add(1, Relaxed);
    }

    /// Resolves when connections are to be cut.
    pub async fn cut(&self) {
        self.cut.notified().await;
    }

    /// Does not return if the reply to an operation that succeeded is to be lost: the connection ends.
    pub(super) async fn reply(&self, operation: OperationKind) {
        let may_be_lost = matches!(
            operation,
            OperationKind::Acquire
                | OperationKind::Release
                | OperationKind::Renew
                | OperationKind::Convert
                | OperationKind::Describe
        );
        let is_lost = || self.replies.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        if may_be_lost && is_lost() {
            self.cut.notify_waiters();
            pending::<()>().await;
        }
    }
}
