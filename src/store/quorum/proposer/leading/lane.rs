//! The lane of acquires, so that no renewal, release, claim or cleanup waits behind many of them.
//!
//! Turns need no queue: they run as their commands come. What waits is their answers. Batches reach the nodes in their
//! order, and an answer is let out when a majority has the batch of its turn and all before it. So grants that are
//! decided faster than the nodes write them would hold up the answer to each renewal, until the leader counts as
//! unheard. Therefore only so many of them may be on their way as the nodes write in about [`AGE_MAX`]; further
//! acquires wait here, before their turns. All other commands run at once: a release frees, most renewals write
//! nothing, and what else writes follows a grant, or is the cleanup of a call. So acquires need no share of a batch,
//! and they never starve.
//!
//! **Why others may pass.** The acquires of a partition stay in their order, so each lock is served first come, first
//! served. A release, a renewal or an attachment names a lease, and a claim or the end of a wait names a queued
//! request: their clients learned of these by the answer to the acquire, so it has had its turn. A cleanup may come
//! before the acquire that it is for, as it may on the network: it leaves a tombstone that outlasts the time at which
//! the acquire comes too late, and the acquire finds that it was overtaken. Between commands of different requests the
//! order is nobody's: no answer to one of them was there when the other was sent.

#[cfg(test)]
mod tests;

use super::{Job, Lead};
use crate::{
    domain::{command::Command, mode::Mode, time::StoreTime},
    store::{
        lateness::{AGE_MAX, Lateness, Shed},
        quorum::{
            proposer::delivery::{Exit, ReplyTo},
            rpc::messages::Refusal,
        },
    },
};
use std::{collections::VecDeque, time::Duration};

/// Grants that may be on their way to the nodes, however slow these are: acquires never starve.
const WINDOW_MIN: usize = 16;
/// Grants that may be on their way, however fast the nodes are.
const WINDOW_MAX: usize = 1_024;
/// For how long a window that was too wide grows slowly: the nodes may be as slow as they were.
const CAREFUL: Duration = Duration::from_secs(10);
/// Acquires that may wait in a partition. All partitions have room for more calls than a server has.
const WAITING_MAX: usize = 16_384;
/// Acquires that take their turns without a pause for others.
const TURNS_AT_ONCE: usize = 512;

/// Acquires that wait for their turns, and the grants that are on their way to the nodes.
pub(super) struct AcquireLane {
    /// In the order in which they came, and when that was.
    waiting: VecDeque<(StoreTime, Job)>,
    lateness: Lateness<StoreTime>,
    /// Grants that no majority is known to have.
    held: usize,
    /// Those of them that are in no batch yet.
    open: usize,
    /// How many grants may be held.
    window: usize,
    /// When the window was last made smaller.
    narrowed_at: Option<StoreTime>,
    /// Refused since it was last asked.
    shed: Shed,
}

impl Default for AcquireLane {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            lateness: Lateness::default(),
            held: 0,
            open: 0,
            window: WINDOW_MIN,
            narrowed_at: None,
            shed: Shed::default(),
        }
    }
}

impl AcquireLane {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether there is room for another grant beside so many that are about to be decided.
    fn has_room(&self, beside: usize) -> bool {
        self.held + beside < self.window
    }

    /// A grant was decided. It goes into the next batch.
    pub(super) fn granted(&mut self) {
        self.held += 1;
        self.open += 1;
    }

    /// A batch was drawn. Returns how many grants it has.
    pub(super) fn written(&mut self) -> usize {
        std::mem::take(&mut self.open)
    }

    /// A majority has a batch with so many grants, of which the first turn was `age` ago.
    pub(super) fn heard(&mut self, grants: usize, age: Duration, now: StoreTime) {
        self.held -= grants;
        if grants == 0 {
            return;
        }
        if age <= AGE_MAX {
            // As long as nothing waits, the window bounds nothing, so its size says nothing of the nodes.
            if !self.waiting.is_empty() {
                // Twofold, or by an eighth, by the time that the nodes have written all grants of a window.
                let is_careful = age > AGE_MAX / 2 || self.narrowed_at.is_some_and(|at| now.since(at) < CAREFUL);
                let more = if is_careful { grants.div_ceil(8) } else { grants };
                self.window = (self.window + more).min(WINDOW_MAX);
            }
        } else if self.narrowed_at.is_none_or(|at| now.since(at) > AGE_MAX) {
            // What was decided before that is late, too: it narrows once.
            self.window = (self.window / 2).max(WINDOW_MIN);
            self.narrowed_at = Some(now);
        }
    }

    /// Whether the oldest acquires are to be refused.
    fn is_late(&mut self, now: StoreTime) -> bool {
        let oldest = self.waiting.front().map(|(came, _)| now.since(*came));
        self.lateness.look(oldest, now, |moment| now.since(moment))
    }
}

impl Lead {
    /// Whether an acquire may take its turn at once: none waits, and there is room for its grant.
    pub(super) fn may_acquire(&self) -> bool {
        self.lane.is_empty() && self.has_room_for_grants()
    }

    fn has_room_for_grants(&self) -> bool {
        // With classic clients, a grant is decided after its step.
        self.lane.has_room(self.bridge.as_ref().map_or(0, |bridge| bridge.grants_under_way()))
    }

    /// Whether acquires wait, and may take their turns now.
    pub(crate) fn has_acquires(&self) -> bool {
        !self.lane.is_empty() && self.has_room_for_grants()
    }

    /// Has an acquire wait for its turn.
    pub(super) fn wait_in_lane(&mut self, job: Job, now: StoreTime, exit: &Exit<'_>) {
        if self.lane.waiting.len() >= WAITING_MAX {
            self.lane.shed.full += 1;
            return self.shed(job, now, exit);
        }
        self.lane.waiting.push_back((now, job));
        self.shed_late(now, exit);
    }

    /// Refuses acquires that have waited for too long. Those that find the lock held take their turns: they write
    /// nothing.
    fn shed_late(&mut self, now: StoreTime, exit: &Exit<'_>) {
        if !self.lane.is_late(now) {
            return;
        }
        let mut turns = 0;
        while turns < TURNS_AT_ONCE
            && self.lane.waiting.front().is_some_and(|(came, _)| now.since(*came) > AGE_MAX)
            && let Some((_, job)) = self.lane.waiting.pop_front()
        {
            if self.would_be_granted(&job) {
                self.lane.shed.late += 1;
                self.shed(job, now, exit);
            } else {
                turns += 1;
                self.run_from_lane(job, now, exit);
            }
        }
    }

    fn shed(&self, job: Job, now: StoreTime, exit: &Exit<'_>) {
        exit.refuse(job.reply_to, self.time.at(now), Refusal::Overloaded);
    }

    fn run_from_lane(&mut self, mut job: Job, now: StoreTime, exit: &Exit<'_>) {
        if let ReplyTo::Caller(_, sent) = &mut job.reply_to {
            // What the lease has left counts from before its turn, not from before its wait.
            *sent = exit.since;
        }
        self.run(job, now, exit);
    }

    /// Whether nobody has the lock or waits for it, and no delay keeps it, as far as turns have been run. A repeat of a
    /// request that is queued, or has a lease, is none of these.
    fn would_be_granted(&self, job: &Job) -> bool {
        let slot = self.locks.find(&job.lock.name, job.lock.hash);
        let mode = match &job.command {
            Command::Acquire(acquire) => &acquire.terms.mode,
            _ => &Mode::Exclusive,
        };
        slot.is_none_or(|slot| slot.lock.would_grant(mode))
    }

    /// Acquires that wait take their turns, as far as there is room for grants, and a bounded number of them.
    pub(crate) fn admit_acquires(&mut self, now: StoreTime, exit: &Exit<'_>) {
        if self.hands_over() {
            return self.refuse_waiting(now, exit);
        }
        for _ in 0..TURNS_AT_ONCE {
            let has_turn = |(_, job): &(StoreTime, Job)| self.has_room_for_grants() || !self.would_be_granted(job);
            if !self.lane.waiting.front().is_some_and(has_turn) {
                break;
            }
            if let Some((_, job)) = self.lane.waiting.pop_front() {
                self.run_from_lane(job, now, exit);
            }
        }
        self.shed_late(now, exit);
    }

    /// Refuses acquires that have waited for too long: their callers give up. To be called from time to time, because
    /// without nodes nothing else looks at them.
    pub(crate) fn refuse_late_acquires(&mut self, now: StoreTime, exit: &Exit<'_>) {
        if self.hands_over() {
            return self.refuse_waiting(now, exit);
        }
        let time = self.time.at(now);
        while self.lane.waiting.front().is_some_and(|(_, job)| job.not_after < time)
            && let Some((_, job)) = self.lane.waiting.pop_front()
        {
            exit.refuse(job.reply_to, time, Refusal::TooLate);
        }
        self.shed_late(now, exit);
    }

    /// Another server leads, or is about to: it is the one to ask. Nothing was done.
    pub(super) fn refuse_waiting(&mut self, now: StoreTime, exit: &Exit<'_>) {
        let time = self.time.at(now);
        for (_, job) in self.lane.waiting.drain(..) {
            exit.refuse(job.reply_to, time, Refusal::NotLeader);
        }
    }

    /// How many acquires were refused since it was last asked.
    pub(crate) fn take_shed(&mut self) -> Shed {
        std::mem::take(&mut self.lane.shed)
    }
}
