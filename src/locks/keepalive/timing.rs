//! What a stream does by itself, by time: it beats, and it looks whether it may stay open.

use super::{ToClient, keeping::Keeping};
use crate::{domain::limits::BEATS_UNANSWERED_MAX, locks::LocksError, store::Store};
use tokio::time::Instant;

impl<S: Store, M: From<ToClient>> Keeping<S, M> {
    fn next_beat_at(&self) -> Instant {
        self.last_beat_at + self.pace.period()
    }

    /// When [`Self::on_time`] is due.
    pub(in crate::locks) fn next_due(&self) -> Instant {
        let beat_at = self.next_beat_at();
        self.restricted.next_look_at().map_or(beat_at, |look_at| beat_at.min(look_at))
    }

    /// Does what is due. The error ends the stream.
    pub(in crate::locks) fn on_time(&mut self, now: Instant) -> Result<(), LocksError> {
        if self.next_beat_at() <= now {
            self.beat(now);
        }
        self.restricted.look(now)
    }

    /// Sends a beat, unless the client is too far behind with its answers.
    pub(super) fn beat(&mut self, now: Instant) {
        self.last_beat_at = now;
        if self.sent - self.answered < BEATS_UNANSWERED_MAX {
            self.sent += 1;
            self.say(ToClient::Beat { beat: self.sent, next_in: self.pace.period() });
        }
    }
}
