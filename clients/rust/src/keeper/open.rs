//! A session that is open, and how long it is of use.

use crate::clock::Moment;
use crate::link::{Health, Link};
use crate::patience;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tonic::Status;

/// A session and its read loop, which ends with it.
#[derive(Debug)]
pub(super) struct OpenLink {
    pub(super) link: Arc<Link>,
    pub(super) task: JoinHandle<()>,
}

impl OpenLink {
    /// Does it still renew or answer?
    pub(super) fn is_of_use(&self) -> bool {
        let health = self.link.health();
        health.works() || (!health.ended && self.link.is_busy())
    }

    /// Is there nothing to be heard of it any more? Its pace is that of the leases that have not left it yet.
    pub(super) fn is_silent(&self, now: Moment) -> bool {
        is_silent(self.link.health(), now, self.link.pace(now))
    }

    /// How many leases it renews.
    pub(super) fn renews(&self, now: Moment) -> usize {
        if self.link.health().works() && !self.is_silent(now) { self.link.kept() } else { 0 }
    }

    /// Does it work, and keep every lease that is to move to it?
    pub(super) fn has_taken_over(&self) -> bool {
        self.link.health().works() && self.link.keeps_all()
    }
}

impl Drop for OpenLink {
    fn drop(&mut self) {
        // The transport goes on sending for as long as the sending half says anything: dropping the reading half is not
        // enough to end a stream.
        self.link.close(Status::unavailable("the session was given up"));
        self.task.abort();
    }
}

/// Is a session not, or not much longer, of use?
pub(super) fn is_bad(health: Health, now: Moment, pace: Option<Duration>) -> bool {
    health.ended || health.draining || is_silent(health, now, pace)
}

/// With no leases to renew there is nothing to expect: whether the connection stands is for its pings to find out.
fn is_silent(health: Health, now: Moment, pace: Option<Duration>) -> bool {
    let limit = |pace| if health.answers { pace / 2 } else { patience::first_answer(pace) };
    pace.is_some_and(|pace| now.since(health.heard) > limit(pace))
}
