//! Notifications from the read loop of a session to the holders of attached leases.

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

/// An event of a lease on a session.
pub(super) enum Notification {
    /// Renewed by a message sent at `sent`.
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

/// A lease attached to a session, or to be attached by its grant. Dropped, it is detached.
pub(in super::super) struct Attachment {
    pub(super) stream: Arc<Stream>,
    pub(super) handle: u32,
    pub(super) notifications: mpsc::UnboundedReceiver<Notification>,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.stream.drop_lease(self.handle);
    }
}

/// Generates handles, unique in the process, so that messages about one are never mistaken for another's.
#[derive(Clone, Default)]
pub(super) struct Handles(Arc<AtomicU32>);

impl Handles {
    pub(super) fn next(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}
