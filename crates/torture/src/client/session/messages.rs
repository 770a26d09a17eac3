//! What is passed on from the read loop of a session to those who hold leases that are attached to it.

use super::stream::Stream;
use fencepost_proto::v1::{self, detached::Reason};
use fencepost_torture::history::Nanos;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;

/// What befell a lease on a session.
pub(super) enum Tiding {
    /// Renewed by what was sent then.
    Renewed {
        sent: Nanos,
        at: Nanos,
        ttl: Duration,
    },
    Lost {
        at: Nanos,
        lost: v1::Lost,
    },
    AtRisk,
    Detached(Reason),
    Draining,
}

/// A lease that is attached to a session, or will be when it is granted. Dropped, it is detached.
pub(in super::super) struct Kept {
    pub(super) stream: Arc<Stream>,
    pub(super) handle: u32,
    pub(super) tidings: mpsc::UnboundedReceiver<Tiding>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.stream.let_go(self.handle);
    }
}

/// Handles: no two alike in one process, so that what is said of one is never taken for another's.
#[derive(Clone, Default)]
pub(super) struct Numbers(Arc<AtomicU32>);

impl Numbers {
    pub(super) fn next(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}
