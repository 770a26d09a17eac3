//! Where commands stand until they are sent. What is under way on a link is bounded, so that it is answered in time
//! however much is asked for: a hundred thousand acquires sent at once would all be answered too late, and each retry
//! would make it worse.
//!
//! What finishes work does not stand behind what begins it. Each lane has its own bound; what can be sent of all of
//! them goes together.

use super::COMMANDS_PER_SCRIPT;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// Commands of one lane that may be under way on a link: about 9 ms of Redis' time, so 0.1 s for all lanes and links of
/// a server. Several servers of which each has this much to do are answered in time
/// ([`RESPONSE_TIMEOUT`](super::RESPONSE_TIMEOUT)); and with 15 ms to Redis and back it is still as much as Redis can
/// do.
pub const UNDER_WAY_MAX: usize = 256;
/// How long a command may stand in line before it is sent. Longer is `Overloaded`: nothing was done. (Redis runs more
/// than 100,000 commands meanwhile, as many as calls may wait on a server.)
pub const IN_LINE_MAX: Duration = Duration::from_secs(5);

/// What kind of work a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The server's own: one poll of each bucket at a time, so many cleanups at a time. They are sent at once: a
    /// heartbeat that is late has other servers skip this one's waiters.
    Upkeep,
    /// What gets a caller on who is served already: claims, releases, ends of waits, renewals. A late claim finds its
    /// offer withdrawn; and where new work goes before renewals, an overload takes the leases, and their holders come
    /// back as more new work.
    Progress,
    /// What begins something, and reads.
    Entry,
    /// Renewals by streams: very many at once, and in no hurry.
    Bulk,
}

/// Every lane, in the order in which they are served.
const LANES: [Lane; 4] = [Lane::Upkeep, Lane::Progress, Lane::Entry, Lane::Bulk];

/// How many of each lane.
pub(super) type Counts = [usize; LANES.len()];

/// Those that stand in one lane, first come, first served.
#[derive(Debug)]
struct Line<T> {
    waiting: BTreeMap<u64, (Instant, T)>,
    under_way: usize,
    under_way_max: usize,
}

impl<T> Line<T> {
    fn new(lane: Lane) -> Self {
        let under_way_max = match lane {
            Lane::Upkeep => usize::MAX,
            // mutant: all at once
            Lane::Progress | Lane::Entry | Lane::Bulk => UNDER_WAY_MAX,
        };
        Self { waiting: BTreeMap::new(), under_way: 0, under_way_max }
    }

    fn room(&self) -> usize {
        self.under_way_max - self.under_way
    }
}

/// Those that stand before one link.
#[derive(Debug)]
pub(super) struct Lines<T> {
    lines: [Line<T>; LANES.len()],
    newest: u64,
    /// Somebody is about to take some.
    being_served: bool,
}

/// What is taken out of the lines.
#[derive(Debug)]
pub(super) struct Taken<T> {
    /// To be sent; under way from now on.
    pub(super) next: Vec<T>,
    /// Stood there for too long.
    pub(super) overdue: Vec<T>,
}

impl<T> Lines<T> {
    pub(super) fn new() -> Self {
        Self { lines: LANES.map(Line::new), newest: 0, being_served: false }
    }

    /// Lets one stand in line, and gives it its number there.
    pub(super) fn enter(&mut self, lane: Lane, now: Instant, one: T) -> u64 {
        self.newest += 1;
        self.lines[lane as usize].waiting.insert(self.newest, (now, one));
        self.newest
    }

    /// Takes one out that is not wanted any more. False if it is under way already.
    pub(super) fn withdraw(&mut self, lane: Lane, number: u64) -> bool {
        // mutant: sent for nobody
        self.lines[lane as usize].waiting.remove(&number).is_some()
    }

    /// The same of one that would not be sent next in any case.
    pub(super) fn withdraw_from_behind(&mut self, lane: Lane, number: u64) -> bool {
        let line = &self.lines[lane as usize];
        let is_next = self.being_served && line.waiting.range(..number).take(line.room()).count() < line.room();
        !is_next && self.withdraw(lane, number)
    }

    /// Whether some can be taken and nobody is about to: whoever is told so does it. Not before there is room for a
    /// whole script: with small ones sent as small ones are answered, a line that is full would never get large ones
    /// again.
    pub(super) fn is_to_be_served(&mut self) -> bool {
        let can_be = |line: &Line<T>| !line.waiting.is_empty() && line.room() >= COMMANDS_PER_SCRIPT;
        let now = !self.being_served && self.lines.iter().any(can_be);
        self.being_served |= now;
        now
    }

    /// Takes as many as may be under way.
    pub(super) fn take(&mut self, now: Instant) -> Taken<T> {
        self.being_served = false;
        let (mut next, mut overdue) = (Vec::new(), Vec::new());
        for line in &mut self.lines {
            while line.room() > 0
                && let Some((_, (since, one))) = line.waiting.pop_first()
            {
                // mutant: no end of standing in line
                if now.saturating_duration_since(since) > IN_LINE_MAX {
                    overdue.push(one);
                } else {
                    next.push(one);
                    line.under_way += 1;
                }
            }
        }
        Taken { next, overdue }
    }

    /// Notes that so many are not under way any more.
    pub(super) fn answered(&mut self, counts: Counts) {
        for (line, count) in self.lines.iter_mut().zip(counts) {
            line.under_way -= count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Counts = [0; LANES.len()];

    fn entries(count: usize) -> Counts {
        let mut counts = NONE;
        counts[Lane::Entry as usize] = count;
        counts
    }

    fn full(lane: Lane) -> (Lines<usize>, Instant) {
        let (mut lines, now) = (Lines::new(), Instant::now());
        for one in 0..2 * UNDER_WAY_MAX {
            lines.enter(lane, now, one);
        }
        assert!(lines.is_to_be_served() && !lines.is_to_be_served(), "one at a time serves them");
        (lines, now)
    }

    #[test]
    fn so_many_are_under_way_and_the_next_go_in_whole_scripts() {
        let (mut lines, now) = full(Lane::Entry);
        assert!(lines.take(now).next.into_iter().eq(0..UNDER_WAY_MAX), "first come, first served");
        assert!(!lines.is_to_be_served());
        lines.answered(entries(COMMANDS_PER_SCRIPT - 1));
        assert!(!lines.is_to_be_served());
        lines.answered(entries(1));
        assert!(lines.is_to_be_served());
        assert_eq!(lines.take(now).next.len(), COMMANDS_PER_SCRIPT);
        lines.answered(entries(UNDER_WAY_MAX));
        assert!(lines.is_to_be_served());
        assert_eq!(lines.take(now).next.len(), UNDER_WAY_MAX - COMMANDS_PER_SCRIPT);
        lines.answered(entries(UNDER_WAY_MAX - COMMANDS_PER_SCRIPT));
        assert!(!lines.is_to_be_served(), "nobody is left");
        assert_eq!(full(Lane::Upkeep).0.take(now).next.len(), 2 * UNDER_WAY_MAX, "these wait for nobody");
    }

    #[test]
    fn a_lane_that_is_full_is_in_nobodys_way() {
        let (mut lines, now) = full(Lane::Entry);
        assert_eq!(lines.take(now).next.len(), UNDER_WAY_MAX);
        for lane in [Lane::Bulk, Lane::Progress, Lane::Upkeep] {
            lines.enter(lane, now, lane as usize);
        }
        assert!(lines.is_to_be_served());
        assert_eq!(lines.take(now).next, [Lane::Upkeep, Lane::Progress, Lane::Bulk].map(|lane| lane as usize));
    }

    #[test]
    fn one_is_withdrawn_until_it_is_taken() {
        let (mut lines, now) = (Lines::new(), Instant::now());
        let [first, second] = [1, 2].map(|one| lines.enter(Lane::Progress, now, one));
        assert!(!lines.withdraw(Lane::Entry, first), "it does not stand there");
        assert!(lines.withdraw(Lane::Progress, first) && !lines.withdraw(Lane::Progress, first));
        assert_eq!(lines.take(now).next, [2]);
        assert!(!lines.withdraw(Lane::Progress, second));
    }

    #[test]
    fn one_that_goes_next_is_not_withdrawn_from_behind() {
        let (mut lines, now) = full(Lane::Entry);
        assert!(!lines.withdraw_from_behind(Lane::Entry, UNDER_WAY_MAX as u64), "the last that is taken");
        assert!(lines.withdraw_from_behind(Lane::Entry, UNDER_WAY_MAX as u64 + 1));
        assert_eq!(lines.take(now).next.len(), UNDER_WAY_MAX);
        assert!(lines.withdraw_from_behind(Lane::Entry, UNDER_WAY_MAX as u64 + 2), "nobody is about to take it");
    }

    #[test]
    fn nobody_stands_in_line_for_longer_than_is_said() {
        let (mut lines, now) = full(Lane::Entry);
        lines.enter(Lane::Entry, now + IN_LINE_MAX, usize::MAX);
        let Taken { next, overdue } = lines.take(now + IN_LINE_MAX);
        assert_eq!((next.len(), overdue.len()), (UNDER_WAY_MAX, 0));
        lines.answered(entries(UNDER_WAY_MAX));
        let later = now + IN_LINE_MAX + Duration::from_millis(1);
        let Taken { next, overdue } = lines.take(later);
        assert_eq!((next, overdue.len()), (vec![usize::MAX], UNDER_WAY_MAX));
    }
}
