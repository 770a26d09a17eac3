//! Expiry: one task that sleeps until the earliest timer of all shards.

use super::MemoryStore;
use crate::{
    domain::time::StoreTime,
    sync::{AtomicU64, Notify, Ordering},
};
use std::time::Duration;

/// Due locks that are handled while a shard stays locked: about 50 µs of work.
const DUE_PER_TURN: usize = 128;

/// The earliest timer of each shard, and until when the task sleeps.
pub(super) struct Alarm {
    /// In microseconds; `u64::MAX` if the shard has no timer. Written under the shard's mutex.
    due: Box<[AtomicU64]>,
    asleep_until: AtomicU64,
    earlier: Notify,
}

impl Alarm {
    pub(super) fn new(shards: usize) -> Self {
        Self {
            due: (0..shards).map(|_| AtomicU64::new(u64::MAX)).collect(),
            asleep_until: AtomicU64::new(u64::MAX),
            earlier: Notify::new(),
        }
    }

    /// Sets the earliest timer of a shard. Wakes the task if it would sleep past it.
    ///
    /// Sequentially consistent with [`Alarm::sleep_until`]: either the task sees the new timer before it sleeps, or
    /// this call sees how long the task will sleep.
    pub(super) fn set(&self, shard: usize, due: Option<StoreTime>) {
        let due = due.map_or(u64::MAX, StoreTime::as_micros);
        if self.due[shard].swap(due, Ordering::SeqCst) != due && due < self.asleep_until.load(Ordering::SeqCst) {
            self.earlier.notify_one();
        }
    }

    fn is_due(&self, shard: usize, now: StoreTime) -> bool {
        self.due[shard].load(Ordering::SeqCst) <= now.as_micros()
    }

    fn earliest(&self) -> u64 {
        self.due.iter().map(|due| due.load(Ordering::SeqCst)).min().unwrap_or(u64::MAX)
    }

    /// Announces the sleep, and returns until when it may last. Never longer than announced, even if a timer has been
    /// removed by the second look: nobody would wake the task for a timer between the two.
    fn sleep_until(&self) -> u64 {
        let announced = self.earliest();
        self.asleep_until.store(announced, Ordering::SeqCst);
        // mutant: alarm does not look again
        // mutant: alarm sleeps longer than announced
        self.earliest().min(announced)
    }
}

impl MemoryStore {
    /// Ends leases and offers when their time comes. Never resolves. Dropped, it leaves the store as it is: every
    /// command still applies the time to its own lock, but nobody learns of an expiry in time.
    pub async fn run_expiry(&self) {
        loop {
            while self.apply_due_timers() {
                tokio::task::yield_now().await;
            }
            let until = self.alarm.sleep_until();
            let left = (until != u64::MAX).then(|| StoreTime::from_micros(until).since(self.clock.now()));
            tokio::select! {
                () = sleep_or_forever(left) => {}
                () = self.alarm.earlier.notified() => {}
            }
        }
    }

    /// Applies the time to the locks that are due, a bounded batch of each shard. Returns whether any batch was full,
    /// so that more may be due.
    pub fn apply_due_timers(&self) -> bool {
        let now = self.clock.now();
        let mut more = false;
        for at in (0..self.shards.len()).filter(|at| self.alarm.is_due(*at, now)) {
            let mut shard = self.shards[at].lock();
            let now = self.clock.now();
            let handled = (0..DUE_PER_TURN).take_while(|_| {
                let next = shard.with_next_due(now, |slot, sequencer| {
                    self.turn_in(slot, sequencer, now, "", |turn| turn.apply_time());
                });
                next.is_some()
            });
            more |= handled.count() == DUE_PER_TURN;
            self.alarm.set(at, shard.next_due());
        }
        more
    }
}

async fn sleep_or_forever(span: Option<Duration>) {
    match span {
        Some(span) => tokio::time::sleep(span).await,
        None => std::future::pending().await,
    }
}
