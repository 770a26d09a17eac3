//! This server's own membership: its heartbeats, and whether it is leaving.

use super::election::Election;
use crate::{
    store::quorum::rpc::messages::HEARTBEAT_PERIOD,
    sync::{AtomicU64, Mutex, Notify, Ordering},
};
use std::sync::{Arc, atomic::AtomicBool};
use tokio::time::Instant;

/// Which servers live, and how this one is among them.
pub(crate) struct Membership {
    pub(crate) election: Mutex<Election>,
    /// Has this server send heartbeats to all nodes before it is time.
    pub(crate) heartbeat_soon: Notify,
    /// The time of a heartbeat to all nodes: others are whole periods after it.
    beat: Mutex<Instant>,
    /// The number of heartbeats so far.
    heartbeats: Arc<AtomicU64>,
    /// Whether this server hands all over, and leads nothing any more.
    leaves: Arc<AtomicBool>,
    /// Whether it has left.
    left: AtomicBool,
}

impl Membership {
    pub(crate) fn of(election: Election) -> Self {
        Self {
            election: Mutex::new(election),
            heartbeat_soon: Notify::new(),
            beat: Mutex::new(Instant::now()),
            heartbeats: Arc::default(),
            leaves: Arc::default(),
            left: AtomicBool::new(false),
        }
    }

    /// The same server in another election: among the nodes of another list. This one's is `nothing` from now on.
    pub(crate) fn move_to(&self, nothing: Election) -> Self {
        let election = std::mem::replace(&mut *self.election.lock(), nothing);
        Self {
            election: Mutex::new(election),
            heartbeat_soon: Notify::new(),
            beat: Mutex::new(Instant::now()),
            heartbeats: Arc::clone(&self.heartbeats),
            leaves: Arc::clone(&self.leaves),
            left: AtomicBool::new(self.has_left()),
        }
    }

    /// Heartbeats to all nodes go at the same times, so that each takes along the same empty batches. From now on these
    /// times are whole periods after `sent`: a node was seen anew then, and [`Election::is_due`] asks for a whole
    /// period after that.
    pub(crate) fn beats_since(&self, sent: Instant) {
        *self.beat.lock() = sent;
    }

    /// The time of the next heartbeat to all nodes.
    pub(crate) fn next_beat(&self, now: Instant) -> Instant {
        let mut beat = self.beat.lock();
        while *beat <= now {
            *beat += HEARTBEAT_PERIOD;
        }
        *beat
    }

    /// The number of a heartbeat, or of a moment between heartbeats: all heartbeats with higher numbers tell what was
    /// noted before.
    pub(crate) fn next_heartbeat(&self) -> u64 {
        self.heartbeats.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Whether this server hands all over, and leads nothing any more.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaves.load(Ordering::Relaxed)
    }

    pub(crate) fn begin_to_leave(&self) {
        self.leaves.store(true, Ordering::Relaxed);
    }

    /// Whether it has left: its last heartbeats say so.
    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    pub(crate) fn note_left(&self) {
        self.left.store(true, Ordering::Relaxed);
    }
}
