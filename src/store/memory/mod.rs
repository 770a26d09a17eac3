//! The built-in store: runs the rules in this process's memory.
//!
//! It forgets everything when the process ends. Tokens rise even so, because its sequencers begin above the clock.
//! Mutual exclusion ends with the process: the next one does not know who held what.

mod expiry;
#[cfg(test)]
mod tests;

use crate::{
    clock::Clock,
    domain::{
        command::{Command, Effects, Outcome},
        ids::{Call, ReplicaId},
        limits::Limits,
        name::LockName,
        replicas::Replicas,
        rules::{Lock, Turn},
        time::StoreTime,
        token::Sequencer,
    },
    store::{
        Answer, AuditNote, Notice, Notices, Page, Store, StoreError, Timed,
        partition::{Partition, SLOTS_PER_PAGE, Slot},
        reason_of,
    },
    sync::Mutex,
};
use expiry::Alarm;
use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};
use uuid::Uuid;

/// Shards, each with its own mutex and its own sequencer.
const SHARDS: usize = 256;
/// Commands carried out between two chances for other tasks to run: about 100 µs of work.
const COMMANDS_PER_TURN: usize = 256;

/// The built-in store.
pub struct MemoryStore {
    shards: Box<[Mutex<Partition>]>,
    hasher: RandomState,
    clock: Arc<dyn Clock>,
    notices: Arc<dyn Notices>,
    alarm: Alarm,
    waiters_max: usize,
}

/// The one server that uses this store.
const THIS_PROCESS: ReplicaId = ReplicaId(Uuid::nil());

impl MemoryStore {
    /// An empty store. [`MemoryStore::run_expiry`] must run, or expired leases end only when the next command comes.
    pub fn new(clock: Arc<dyn Clock>, limits: &Limits, notices: Arc<dyn Notices>) -> Self {
        Self::with_shards(SHARDS, clock, limits, notices)
    }

    /// An empty store with this many shards, a power of two.
    pub fn with_shards(shards: usize, clock: Arc<dyn Clock>, limits: &Limits, notices: Arc<dyn Notices>) -> Self {
        assert!(shards.is_power_of_two(), "the highest bits of a hash are the number of its shard");
        let sequencer = Sequencer::above_clock(clock.now());
        Self {
            shards: (0..shards).map(|_| Mutex::new(Partition::new(sequencer.clone()))).collect(),
            hasher: RandomState::new(),
            clock,
            notices,
            alarm: Alarm::new(shards),
            waiters_max: limits.waiters_per_lock,
        }
    }

    /// The shard of a hash: its highest bits, because the shard's own table uses the others.
    fn shard_of(&self, hash: u64) -> usize {
        let bits = self.shards.len().ilog2();
        hash.checked_shr(u64::BITS - bits).and_then(|shard| usize::try_from(shard).ok()).unwrap_or(0)
    }

    /// Carries out a command.
    fn execute(&self, name: &LockName, command: Command) -> Outcome {
        if let Command::View { token } = command {
            return self.read(name, |lock, now| Box::new(lock.view(now, token)).into());
        }
        let reason = reason_of(&command);
        let hash = self.hasher.hash_one(name);
        let at = self.shard_of(hash);
        // mutant: clock read before the lock
        let mut shard = self.shards[at].lock();
        // Read under the lock: within a shard, time never goes back.
        let now = self.clock.now();
        // mutant: clock read before the lock: to here
        if let Command::Acquire(acquire) = &command
            && let Some(refusal) = acquire.refusal(now)
        {
            return refusal.into();
        }
        let outcome = shard.with_lock(name, hash, |slot, sequencer| {
            self.turn_in(slot, sequencer, now, &reason, |turn| turn.run(command))
        });
        self.alarm.set(at, shard.next_due());
        outcome
    }

    /// Acts on a lock that was found.
    fn turn_in<R>(
        &self,
        slot: &mut Slot,
        sequencer: &mut Sequencer,
        now: StoreTime,
        reason: &str,
        act: impl FnOnce(&mut Turn<'_>) -> R,
    ) -> R {
        let mut effects = Effects::new();
        let outcome = act(&mut Turn {
            lock: &mut slot.lock,
            sequencer,
            effects: &mut effects,
            now,
            replica: THIS_PROCESS,
            replicas: &Replicas::one(),
            waiters_max: self.waiters_max,
            classic: None,
        });
        if self.notices.is_audited() {
            AuditNote::of(&effects, &slot.name, &slot.lock, reason, |note| self.notices.audit(note));
        }
        let is_watched = self.notices.is_watched();
        Notice::of(&effects, &slot.name, &slot.lock, reason, is_watched, |_, notice| notice.deliver_to(&*self.notices));
        outcome
    }

    /// Reads one lock.
    fn read<R>(&self, name: &LockName, read: impl FnOnce(&Lock, StoreTime) -> R) -> R {
        let hash = self.hasher.hash_one(name);
        let shard = self.shards[self.shard_of(hash)].lock();
        let now = self.clock.now();
        match shard.find(name, hash) {
            Some(slot) => read(&slot.lock, now),
            None => read(&Lock::default(), now),
        }
    }
}

// No future here awaits anything before its work is done: it is ready when first polled, so a dropped call finds its
// command either done or never begun.
impl Store for MemoryStore {
    async fn run(&self, name: &LockName, command: Command) -> Answer {
        Ok(Timed::act(|| self.execute(name, command)))
    }

    async fn renew_each(&self, renewals: Vec<(&LockName, Command)>) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(renewals.len());
        for (name, command) in renewals {
            // Dropped here, some leases are renewed and some are not: none is worse off than before.
            if !answers.is_empty() && answers.len().is_multiple_of(COMMANDS_PER_TURN) {
                tokio::task::yield_now().await;
            }
            answers.push(Ok(Timed::act(|| self.execute(name, command))));
        }
        answers
    }

    fn post(&self, name: &LockName, command: Command) {
        self.execute(name, command);
    }

    fn ahead(&self, name: &LockName, call: Call) -> Option<u64> {
        self.read(name, |lock, _| lock.ahead(call.request))
    }

    async fn watch(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn list(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Page, StoreError> {
        let (mut at, mut slot) = match from {
            None => (0, 0),
            Some(from) => cursor(from, self.shards.len()).ok_or(StoreError::BadPageToken)?,
        };
        let mut page = Page::default();
        let mut budget = SLOTS_PER_PAGE;
        while at < self.shards.len() && page.locks.len() < limit && budget > 0 {
            let shard = self.shards[at].lock();
            let now = self.clock.now();
            match shard.scan(slot, &mut budget, limit, prefix, now, &mut page.locks) {
                Some(next) => slot = next,
                None => (at, slot) = (at + 1, 0),
            }
        }
        page.next = (at < self.shards.len()).then(|| format!("{at:x}.{slot:x}"));
        Ok(page)
    }
}

fn cursor(text: &str, shards: usize) -> Option<(usize, usize)> {
    let (at, slot) = text.split_once('.')?;
    let at = usize::from_str_radix(at, 16).ok().filter(|at| *at < shards)?;
    Some((at, usize::from_str_radix(slot, 16).ok()?))
}
