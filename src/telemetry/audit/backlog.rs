//! The lines that wait to be written: how many there are, and what becomes of them at the end.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// The lines that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: u64,
    /// How many were written or failed.
    done: u64,
    /// `done` at the last look.
    seen: u64,
    /// Nobody waits for the lines any more.
    given_up: bool,
}

impl Backlog {
    /// A line is about to be passed on. False if none is written any more.
    pub(super) fn add(&self) -> bool {
        let mut lines = self.lines.lock();
        lines.waiting += u64::from(!lines.given_up);
        !lines.given_up
    }

    /// That line was not passed on. `count` counts it as lost, unless [`Self::finish`] has.
    pub(super) fn take_back(&self, count: impl FnOnce()) {
        self.end_one(0, count);
    }

    /// A line was written, or could not be, which `count` counts. False if it is counted as lost already.
    pub(super) fn done(&self, count: impl FnOnce()) -> bool {
        self.end_one(1, count)
    }

    fn end_one(&self, done: u64, count: impl FnOnce()) -> bool {
        let mut lines = self.lines.lock();
        if lines.given_up {
            return false;
        }
        // Before the end is told of, after which the count is read for the last time.
        count();
        lines.waiting = lines.waiting.saturating_sub(1);
        lines.done += done;
        if lines.waiting == 0 {
            self.changed.notify_all();
        }
        true
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.lines.lock().given_up
    }

    /// How many lines wait, if none was done since the last look although some waited.
    pub(super) fn stalled(&self) -> Option<u64> {
        let mut lines = self.lines.lock();
        let stalled = lines.waiting > 0 && lines.done == lines.seen;
        lines.seen = lines.done;
        stalled.then_some(lines.waiting)
    }

    /// Waits until all lines are written, but not longer than this, and gives the rest up. Returns how many these are.
    pub(super) fn finish(&self, timeout: Duration) -> u64 {
        let mut lines = self.lines.lock();
        self.changed.wait_while_for(&mut lines, |lines| lines.waiting > 0, timeout);
        lines.given_up = true;
        std::mem::take(&mut lines.waiting)
    }

    /// Whether so many lines were written or failed.
    #[cfg(test)]
    pub(super) fn is_done(&self, lines: u64) -> bool {
        self.lines.lock().done >= lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_does_not_overtake_the_count_of_a_loss() {
        let backlog = Backlog::default();
        let mut waits = 0;
        let mut count = || waits += u32::from(backlog.lines.is_locked());
        assert!(backlog.add() && backlog.add());
        backlog.take_back(&mut count);
        assert!(backlog.done(&mut count));
        assert_eq!((waits, backlog.finish(Duration::ZERO)), (2, 0), "`finish` waits for both");

        let mut counts = 0;
        let other = Backlog::default();
        assert!(other.add());
        assert_eq!(other.finish(Duration::ZERO), 1);
        assert!(!other.done(|| counts += 1) && !other.add());
        assert_eq!(counts, 0, "its caller has counted the line");
    }
}
