//! The calls that wait through this server in one partition: it presents them to each new leader.
//!
//! A queue lives in the memory of the partition's leader, and is lost with it. The server that carries a call knows what
//! the call asked for and where it stood, so that the next leader can queue it again in the old order.

use super::{ballot::Ballot, exit::QueuePlace, frame::PresentedWaiter};
use crate::domain::{
    command::{Acquire, Command, Outcome},
    ids::Call,
    name::LockName,
    outcome::AcquireOutcome,
};
use hashbrown::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// A call is presented again to a leader that has not said for so long what became of it.
const PRESENTED_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// The waiting calls of a partition.
#[derive(Debug, Default)]
pub(super) struct Carried(HashMap<Call, Waiting>);

#[derive(Debug)]
struct Waiting {
    waiter: PresentedWaiter,
    /// The leader that it was presented to last, and a moment before that.
    presented: Option<(Ballot, Instant)>,
    /// An upper bound on how many requests are queued before it.
    ahead: u64,
}

impl Carried {
    /// Takes the outcome of an acquire that a leader confirmed, and its place if it is queued.
    pub(super) fn acquired(&mut self, name: &LockName, acquire: Acquire, at: QueuePlace, outcome: &Outcome) {
        if *outcome == Outcome::Acquire(AcquireOutcome::Queued) {
            let call = acquire.call;
            let waiter = PresentedWaiter { place: (at.ballot, at.number), name: name.clone(), acquire };
            self.0.insert(call, Waiting { waiter, presented: None, ahead: at.ahead });
        } else {
            self.0.remove(&acquire.call);
        }
    }

    /// Takes the outcome of another command: some end a wait.
    pub(super) fn answered(&mut self, command: &Command, at: QueuePlace, outcome: &Outcome) {
        let (Command::Claim(call, _) | Command::GiveUp(call), Outcome::Acquire(outcome)) = (command, outcome) else {
            return;
        };
        match outcome {
            AcquireOutcome::Queued => {
                if let Some(waiting) = self.0.get_mut(call) {
                    waiting.ahead = waiting.ahead.min(at.ahead);
                }
            }
            // It is not queued at this leader yet.
            AcquireOutcome::TooLate(_) | AcquireOutcome::Unknown => {}
            _ => drop(self.0.remove(call)),
        }
    }

    /// An upper bound on how many requests are queued before that of this call, if it waits.
    pub(super) fn ahead(&self, call: Call) -> Option<u64> {
        self.0.get(&call).map(|waiting| waiting.ahead)
    }

    /// What the call asked for, if it waits.
    pub(super) fn get(&self, call: Call) -> Option<&Acquire> {
        self.0.get(&call).map(|waiting| &waiting.waiter.acquire)
    }

    /// The call does not wait any more.
    pub(super) fn remove(&mut self, call: Call) {
        self.0.remove(&call);
    }

    /// The waiting calls, in no particular order.
    pub(super) fn calls(&self) -> impl Iterator<Item = Call> {
        self.0.keys().copied()
    }

    /// The waiters that this leader has not queued, in their old order. To be presented to it now.
    pub(super) fn present_to(&mut self, ballot: Ballot, now: Instant) -> Vec<PresentedWaiter> {
        let is_to_be = |waiting: &Waiting| {
            waiting.waiter.place.0 < ballot
                && waiting
                    .presented
                    .is_none_or(|(to, at)| to < ballot || now.duration_since(at) >= PRESENTED_AGAIN_AFTER)
        };
        let presented = self.0.values_mut().filter(|waiting| is_to_be(waiting)).map(|waiting| {
            waiting.presented = Some((ballot, now));
            waiting.waiter.clone()
        });
        let mut waiters: Vec<_> = presented.collect();
        waiters.sort_unstable_by_key(|waiter| waiter.place);
        waiters
    }

    /// A moment before the call was presented to this leader. None if it was not, or waits no more.
    pub(super) fn presented_at(&self, call: Call, ballot: Ballot) -> Option<Instant> {
        self.0.get(&call)?.presented.filter(|(to, _)| *to == ballot).map(|(_, at)| at)
    }

    /// A call that was presented is queued at this place.
    pub(super) fn queued_again(&mut self, call: Call, place: (Ballot, u64)) {
        if let Some(waiting) = self.0.get_mut(&call) {
            waiting.waiter.place = place;
        }
    }
}
