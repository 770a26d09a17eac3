//! The work after a step or a batch: updates of classic keys, and locks that are polled.

use super::{Bridge, HashedName, KeyState, Lead, Theirs, Wish, Work, wishes};
use crate::{
    domain::{name::LockName, time::StoreTime},
    store::quorum::proposer::delivery::Exit,
};
use std::{collections::VecDeque, time::Duration};

/// How often it is looked whether a classic client still has a lock that somebody waits for.
const POLL_PERIOD: Duration = Duration::from_secs(1);
/// With so many steps under way no key is settled: commands come first.
const SETTLED_AT_A_TIME: usize = 64;

impl Lead {
    /// The lock's last turn left no lease, and a majority has its batch.
    pub(in crate::store::quorum::proposer::leading) fn settle_later(&mut self, lock: HashedName) {
        if let Some(bridge) = &mut self.bridge {
            bridge.due.push_back(lock);
        }
    }

    pub(super) fn settle_due(&mut self, now: StoreTime) {
        while let Some(bridge) = self.bridge.as_mut().filter(|bridge| bridge.under_way.len() < SETTLED_AT_A_TIME)
            && let Some(due) = bridge.due.pop_front()
        {
            self.step_alone(due, Work::Settle, now);
        }
    }

    /// Begins the step that this work needs, if it needs one. If another one is under way, the key is settled after it.
    fn step_alone(&mut self, lock: HashedName, work: Work, now: StoreTime) {
        let Some(bridge) = &mut self.bridge else { return };
        if let Some(lane) = bridge.lanes.get_mut(&lock.name) {
            lane.is_due = true;
            return;
        }
        if let Some(wish) = self.wish(&lock, &work, now) {
            self.begin_step(lock, wish, (work, VecDeque::new()), now);
        }
    }

    /// After a step and its turn: whether the key says what the lock says, and whether the lock is to be polled.
    pub(super) fn after_step(&mut self, hashed: &HashedName, wish: &Wish, state: Result<KeyState, ()>, now: StoreTime) {
        let time = self.time.at(now);
        let lock = self.locks.find(&hashed.name, hashed.hash).map(|slot| &slot.lock);
        let is_wanted = wishes::is_wanted(lock, time);
        let is_wrong = match wish {
            Wish::Hold { value, .. } if matches!(state, Ok(KeyState::Ours)) => !wishes::is_right(value, lock, time),
            _ => false,
        };
        if let Some(bridge) = self.bridge.as_mut().filter(|_| !is_wanted) {
            bridge.theirs.remove(&hashed.name);
        }
        if is_wrong {
            self.settle_after_batch(hashed, now);
        }
    }

    /// Looks whether classic clients still have what somebody waits for.
    pub(in crate::store::quorum::proposer::leading) fn poll_classic(&mut self, now: StoreTime) {
        let is_due = |bridge: &&mut Box<Bridge>| now.since(bridge.polled_at) >= POLL_PERIOD;
        let Some(bridge) = self.bridge.as_mut().filter(is_due) else { return };
        bridge.polled_at = now;
        let hashed = |(name, it): (&LockName, &Theirs)| HashedName { name: name.clone(), hash: it.hash };
        let polled: Vec<HashedName> = bridge.theirs.iter().map(hashed).collect();
        for lock in polled {
            if self.wish(&lock, &Work::Poll, now).is_some() {
                self.step_alone(lock, Work::Poll, now);
            } else if let Some(bridge) = &mut self.bridge {
                bridge.theirs.remove(&lock.name);
            }
        }
    }

    /// Takes the lock's classic client into account, if there is one, or offers the lock.
    pub(super) fn apply_time_to(&mut self, lock: &HashedName, now: StoreTime, exit: &Exit<'_>) {
        // A lock without state is not made for this.
        if self.locks.find(&lock.name, lock.hash).is_some() {
            self.begin_turn(now);
            self.apply_time(lock, now, exit);
        }
    }
}
