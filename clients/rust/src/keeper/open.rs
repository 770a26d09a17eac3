//! An open session, and whether it is still useful.

use crate::clock::Moment;
use crate::error::CallError;
use crate::session::{Health, Session};
use crate::timing;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tonic::Status;

/// A session and its read loop. Both end together.
#[derive(Debug)]
pub(super) struct OpenSession {
    pub(super) session: Arc<Session>,
    pub(super) task: JoinHandle<()>,
}

impl OpenSession {
    /// Whether it still renews leases or answers operations.
    pub(super) fn is_useful(&self) -> bool {
        let health = self.session.health();
        health.works() || (!health.ended && self.session.is_busy())
    }

    /// Whether nothing has arrived for too long. The pace is that of the leases still attached to it.
    pub(super) fn is_silent(&self, now: Moment) -> bool {
        is_silent(self.session.health(), now, self.session.pace(now))
    }

    /// The number of leases that it renews.
    pub(super) fn renews(&self, now: Moment) -> usize {
        if self.session.health().works() && !self.is_silent(now) { self.session.kept() } else { 0 }
    }

    /// Whether it works and keeps every lease that moves to it.
    pub(super) fn keeps_all_leases(&self) -> bool {
        self.session.health().works() && self.session.keeps_all()
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        // The transport keeps sending while the outgoing stream is open: dropping the incoming stream does not end the
        // call.
        self.session.close(CallError::new(Status::unavailable("the session was replaced")));
        self.task.abort();
    }
}

/// Whether a session needs a replacement now or soon.
pub(super) fn needs_replacement(health: Health, now: Moment, pace: Option<Duration>) -> bool {
    health.ended || health.draining || is_silent(health, now, pace)
}

/// Without leases nothing is expected: HTTP/2 pings check the connection.
fn is_silent(health: Health, now: Moment, pace: Option<Duration>) -> bool {
    let limit = |pace| if health.answers { pace / 2 } else { timing::answer_timeout(pace) };
    pace.is_some_and(|pace| now.since(health.last_received) > limit(pace))
}
