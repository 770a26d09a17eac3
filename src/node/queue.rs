//! Queues of commands before one connection. The number of commands in flight is bounded, so that each is answered in
//! time whatever the load: a hundred thousand commands sent at once would all be answered too late, and each retry
//! would make it worse.
//!
//! Each lane has a queue and a bound of its own, so that a full lane holds up no other. All commands that can be sent
//! go together, whatever their lane.

use super::COMMANDS_PER_BATCH;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// Commands of one lane that may be in flight on a connection: about 9 ms of Redis' time, so 0.1 s for all lanes and
/// connections of a server. So several busy servers are answered in time
/// ([`RESPONSE_TIMEOUT`](super::RESPONSE_TIMEOUT)); and with a round trip of 15 ms it is still as much as Redis can do.
pub const IN_FLIGHT_MAX: usize = 256;
/// How long a command may be queued. Then it is `Overloaded`: nothing was done. (Redis runs more than 100,000 commands
/// meanwhile.)
pub const QUEUE_TIME_MAX: Duration = Duration::from_secs(5);

/// The priority class of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The server's own commands, of which there are only so many at a time. They are not bounded, so they never wait.
    Upkeep,
    /// Commands that finish work which was begun. Under load they go before new work: late, they would waste what was
    /// done already.
    Progress,
    /// Commands that begin work, and reads.
    Entry,
    /// Very many commands at once, none of them urgent.
    Bulk,
}

/// All lanes, in the order in which they are sent.
const LANES: [Lane; 4] = [Lane::Upkeep, Lane::Progress, Lane::Entry, Lane::Bulk];

/// A number of commands for each lane.
pub(super) type Counts = [usize; LANES.len()];

/// The queue of one lane, first come, first served.
#[derive(Debug)]
struct Queue<T> {
    waiting: BTreeMap<u64, (Instant, T)>,
    in_flight: usize,
    in_flight_max: usize,
}

impl<T> Queue<T> {
    fn new(lane: Lane) -> Self {
        let in_flight_max = match lane {
            Lane::Upkeep => usize::MAX,
            // mutant: all at once
            Lane::Progress | Lane::Entry | Lane::Bulk => IN_FLIGHT_MAX,
        };
        Self { waiting: BTreeMap::new(), in_flight: 0, in_flight_max }
    }

    fn room(&self) -> usize {
        self.in_flight_max - self.in_flight
    }
}

/// The queues of one connection.
#[derive(Debug)]
pub(super) struct Queues<T> {
    queues: [Queue<T>; LANES.len()],
    newest: u64,
    /// A task is about to take commands.
    is_send_due: bool,
}

/// Commands taken out of the queues.
#[derive(Debug)]
pub(super) struct Taken<T> {
    /// To be sent; they count as in flight from now on.
    pub(super) next: Vec<T>,
    /// Were queued for too long.
    pub(super) overdue: Vec<T>,
}

impl<T> Queues<T> {
    pub(super) fn new() -> Self {
        Self { queues: LANES.map(Queue::new), newest: 0, is_send_due: false }
    }

    /// Queues a command, and returns its number in the queue.
    pub(super) fn push(&mut self, lane: Lane, now: Instant, command: T) -> u64 {
        self.newest += 1;
        self.queues[lane as usize].waiting.insert(self.newest, (now, command));
        self.newest
    }

    /// Takes out a command that is not wanted any more. False if it was taken already.
    pub(super) fn withdraw(&mut self, lane: Lane, number: u64) -> bool {
        // mutant: sent for nobody
        self.queues[lane as usize].waiting.remove(&number).is_some()
    }

    /// The same, but leaves a command that is about to be sent.
    pub(super) fn withdraw_unless_next(&mut self, lane: Lane, number: u64) -> bool {
        let queue = &self.queues[lane as usize];
        let is_next = self.is_send_due && queue.waiting.range(..number).take(queue.room()).count() < queue.room();
        !is_next && self.withdraw(lane, number)
    }

    /// Whether the caller has to start a task that takes commands: some can be sent, and no task is about to take them.
    /// Not before there is room for a whole batch: with small batches sent as small ones are answered, a full lane
    /// would never get large ones again.
    pub(super) fn begin_send(&mut self) -> bool {
        let can_send = |queue: &Queue<T>| !queue.waiting.is_empty() && queue.room() >= COMMANDS_PER_BATCH;
        let begins = !self.is_send_due && self.queues.iter().any(can_send);
        self.is_send_due |= begins;
        begins
    }

    /// Takes as many commands as may be in flight.
    pub(super) fn take(&mut self, now: Instant) -> Taken<T> {
        self.is_send_due = false;
        let (mut next, mut overdue) = (Vec::new(), Vec::new());
        for queue in &mut self.queues {
            while queue.room() > 0
                && let Some((_, (since, command))) = queue.waiting.pop_first()
            {
                // mutant: no end of standing in line
                if now.saturating_duration_since(since) > QUEUE_TIME_MAX {
                    overdue.push(command);
                } else {
                    next.push(command);
                    queue.in_flight += 1;
                }
            }
        }
        Taken { next, overdue }
    }

    /// Notes that so many commands are not in flight any more.
    pub(super) fn completed(&mut self, counts: Counts) {
        for (queue, count) in self.queues.iter_mut().zip(counts) {
            queue.in_flight -= count;
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

    fn full(lane: Lane) -> (Queues<usize>, Instant) {
        let (mut queues, now) = (Queues::new(), Instant::now());
        for command in 0..2 * IN_FLIGHT_MAX {
            queues.push(lane, now, command);
        }
        assert!(queues.begin_send() && !queues.begin_send(), "one task at a time takes them");
        (queues, now)
    }

    #[test]
    fn so_many_are_in_flight_and_the_next_go_in_whole_batches() {
        let (mut queues, now) = full(Lane::Entry);
        assert!(queues.take(now).next.into_iter().eq(0..IN_FLIGHT_MAX), "first come, first served");
        assert!(!queues.begin_send());
        queues.completed(entries(COMMANDS_PER_BATCH - 1));
        assert!(!queues.begin_send());
        queues.completed(entries(1));
        assert!(queues.begin_send());
        assert_eq!(queues.take(now).next.len(), COMMANDS_PER_BATCH);
        queues.completed(entries(IN_FLIGHT_MAX));
        assert!(queues.begin_send());
        assert_eq!(queues.take(now).next.len(), IN_FLIGHT_MAX - COMMANDS_PER_BATCH);
        queues.completed(entries(IN_FLIGHT_MAX - COMMANDS_PER_BATCH));
        assert!(!queues.begin_send(), "none is left");
        assert_eq!(full(Lane::Upkeep).0.take(now).next.len(), 2 * IN_FLIGHT_MAX, "these are not bounded");
    }

    #[test]
    fn a_full_lane_holds_up_no_other() {
        let (mut queues, now) = full(Lane::Entry);
        assert_eq!(queues.take(now).next.len(), IN_FLIGHT_MAX);
        for lane in [Lane::Bulk, Lane::Progress, Lane::Upkeep] {
            queues.push(lane, now, lane as usize);
        }
        assert!(queues.begin_send());
        assert_eq!(queues.take(now).next, [Lane::Upkeep, Lane::Progress, Lane::Bulk].map(|lane| lane as usize));
    }

    #[test]
    fn a_command_is_withdrawn_until_it_is_taken() {
        let (mut queues, now) = (Queues::new(), Instant::now());
        let [first, second] = [1, 2].map(|command| queues.push(Lane::Progress, now, command));
        assert!(!queues.withdraw(Lane::Entry, first), "it is not in that queue");
        assert!(queues.withdraw(Lane::Progress, first) && !queues.withdraw(Lane::Progress, first));
        assert_eq!(queues.take(now).next, [2]);
        assert!(!queues.withdraw(Lane::Progress, second));
    }

    #[test]
    fn a_command_that_is_about_to_be_sent_is_left() {
        let (mut queues, now) = full(Lane::Entry);
        assert!(!queues.withdraw_unless_next(Lane::Entry, IN_FLIGHT_MAX as u64), "the last that is taken");
        assert!(queues.withdraw_unless_next(Lane::Entry, IN_FLIGHT_MAX as u64 + 1));
        assert_eq!(queues.take(now).next.len(), IN_FLIGHT_MAX);
        assert!(queues.withdraw_unless_next(Lane::Entry, IN_FLIGHT_MAX as u64 + 2), "no task is about to take it");
    }

    #[test]
    fn no_command_is_queued_for_longer_than_the_bound() {
        let (mut queues, now) = full(Lane::Entry);
        queues.push(Lane::Entry, now + QUEUE_TIME_MAX, usize::MAX);
        let Taken { next, overdue } = queues.take(now + QUEUE_TIME_MAX);
        assert_eq!((next.len(), overdue.len()), (IN_FLIGHT_MAX, 0));
        queues.completed(entries(IN_FLIGHT_MAX));
        let later = now + QUEUE_TIME_MAX + Duration::from_millis(1);
        let Taken { next, overdue } = queues.take(later);
        assert_eq!((next, overdue.len()), (vec![usize::MAX], IN_FLIGHT_MAX));
    }
}
