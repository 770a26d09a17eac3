//! Where commands stand until they are sent. What is under way on a link is bounded, so that it is answered in time however much is asked
//! for: a hundred thousand acquires sent at once would all be answered too late, and each retry would make it worse.
//!
//! What finishes work does not stand behind what begins it. Each lane has its own bound.

use super::COMMANDS_PER_SCRIPT;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// Commands of one lane that may be under way on a link: about 9 ms of Redis' time, so 0.1 s for all lanes and links of a server. Several
/// servers of which each has this much to do are answered in time ([`RESPONSE_TIMEOUT`](super::RESPONSE_TIMEOUT)); and with 5 ms to Redis and
/// back it is as much as Redis can do.
pub const UNDER_WAY_MAX: usize = 256;
/// How long a command may stand in line before it is sent. Longer is `Unavailable`: nothing was done. (Redis runs more than 100,000 commands
/// meanwhile, as many as calls may wait on a server.)
pub const IN_LINE_MAX: Duration = Duration::from_secs(5);

/// What kind of work a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The server's own: polls, clean-ups. Few at a time by themselves, so they are sent at once: a heartbeat that is late has other servers
    /// skip this one's waiters.
    Upkeep,
    /// What gets a caller on who is served already: claims, releases, ends of waits, renewals. A late claim finds its offer withdrawn.
    Progress,
    /// What begins something, and reads.
    Entry,
    /// Renewals by streams: very many at once, and in no hurry.
    Bulk,
}

impl Lane {
    /// How many there are.
    pub(super) const COUNT: usize = 4;

    fn under_way_max(self) -> usize {
        match self {
            Self::Upkeep => usize::MAX,
            Self::Progress | Self::Entry | Self::Bulk => UNDER_WAY_MAX,
        }
    }
}

/// Those that stand in one lane, first come, first served.
#[derive(Debug)]
pub(super) struct Line<T> {
    waiting: BTreeMap<u64, (Instant, T)>,
    newest: u64,
    under_way: usize,
    under_way_max: usize,
    /// Somebody is about to take some.
    being_served: bool,
}

/// What is taken out of a line.
#[derive(Debug)]
pub(super) struct Taken<T> {
    /// To be sent; under way from now on.
    pub(super) next: Vec<T>,
    /// Stood there for too long.
    pub(super) overdue: Vec<T>,
}

impl<T> Line<T> {
    pub(super) fn new(lane: Lane) -> Self {
        let (waiting, under_way_max) = (BTreeMap::new(), lane.under_way_max());
        Self { waiting, newest: 0, under_way: 0, under_way_max, being_served: false }
    }

    /// Lets one stand in line, and gives it its number there.
    pub(super) fn enter(&mut self, now: Instant, one: T) -> u64 {
        self.newest += 1;
        self.waiting.insert(self.newest, (now, one));
        self.newest
    }

    /// Takes one out that is not wanted any more. False if it is under way already.
    pub(super) fn withdraw(&mut self, number: u64) -> bool {
        self.waiting.remove(&number).is_some()
    }

    /// Whether some can be taken and nobody is about to: whoever is told so does it. Not before there is room for a whole script: with small
    /// ones sent as small ones are answered, a line that is full would never get large ones again.
    pub(super) fn is_to_be_served(&mut self) -> bool {
        let room = self.under_way_max - self.under_way;
        let now = !self.being_served && !self.waiting.is_empty() && room >= COMMANDS_PER_SCRIPT;
        self.being_served |= now;
        now
    }

    /// Takes as many as may be under way. Those that `must` be sent are never overdue.
    pub(super) fn take(&mut self, now: Instant, must: impl Fn(&T) -> bool) -> Taken<T> {
        self.being_served = false;
        let (mut next, mut overdue) = (Vec::new(), Vec::new());
        let room = self.under_way_max - self.under_way;
        while next.len() < room
            && let Some((_, (since, one))) = self.waiting.pop_first()
        {
            let is_overdue = now.saturating_duration_since(since) > IN_LINE_MAX && !must(&one);
            if is_overdue { &mut overdue } else { &mut next }.push(one);
        }
        self.under_way += next.len();
        Taken { next, overdue }
    }

    /// Notes that so many are not under way any more.
    pub(super) fn answered(&mut self, count: usize) {
        self.under_way -= count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(lane: Lane) -> (Line<usize>, Instant) {
        let (mut line, now) = (Line::new(lane), Instant::now());
        for one in 0..2 * UNDER_WAY_MAX {
            line.enter(now, one);
        }
        assert!(line.is_to_be_served() && !line.is_to_be_served(), "one at a time serves it");
        (line, now)
    }

    #[test]
    fn so_many_are_under_way_and_the_next_go_in_whole_scripts() {
        let (mut line, now) = full(Lane::Entry);
        assert!(line.take(now, |_| false).next.into_iter().eq(0..UNDER_WAY_MAX), "first come, first served");
        assert!(!line.is_to_be_served());
        line.answered(COMMANDS_PER_SCRIPT - 1);
        assert!(!line.is_to_be_served());
        line.answered(1);
        assert!(line.is_to_be_served());
        assert_eq!(line.take(now, |_| false).next.len(), COMMANDS_PER_SCRIPT);
        line.answered(UNDER_WAY_MAX);
        assert!(line.is_to_be_served());
        assert_eq!(line.take(now, |_| false).next.len(), UNDER_WAY_MAX - COMMANDS_PER_SCRIPT);
        line.answered(UNDER_WAY_MAX - COMMANDS_PER_SCRIPT);
        assert!(!line.is_to_be_served(), "nobody is left");
        assert_eq!(full(Lane::Upkeep).0.take(now, |_| false).next.len(), 2 * UNDER_WAY_MAX, "these wait for nobody");
    }

    #[test]
    fn one_is_withdrawn_until_it_is_taken() {
        let (mut line, now) = (Line::new(Lane::Progress), Instant::now());
        let [first, second] = [1, 2].map(|one| line.enter(now, one));
        assert!(line.withdraw(first) && !line.withdraw(first));
        assert_eq!(line.take(now, |_| false).next, [2]);
        assert!(!line.withdraw(second));
    }

    #[test]
    fn nobody_stands_in_line_for_longer_than_is_said() {
        let (mut line, now) = full(Lane::Entry);
        line.enter(now + IN_LINE_MAX, usize::MAX);
        let Taken { next, overdue } = line.take(now + IN_LINE_MAX, |_| false);
        assert_eq!((next.len(), overdue.len()), (UNDER_WAY_MAX, 0));
        line.answered(UNDER_WAY_MAX);
        let later = now + IN_LINE_MAX + Duration::from_millis(1);
        let Taken { next, overdue } = line.take(later, |one| *one == UNDER_WAY_MAX);
        assert_eq!((next, overdue.len()), (vec![UNDER_WAY_MAX, usize::MAX], UNDER_WAY_MAX - 1));
    }
}
