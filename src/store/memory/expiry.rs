//! What makes leases end by themselves: one task that sleeps until the earliest timer of all shards.

use super::MemoryStore;
use crate::{
    domain::time::StoreTime,
    sync::{AtomicU64, Notify, Ordering},
};
use std::time::Duration;

/// Locks looked at while a shard stays locked: about 50 µs of work.
const DUE_PER_TURN: usize = 128;

/// When each shard wants to be looked at, and until when the task sleeps.
pub(super) struct Alarm {
    /// In microseconds; `u64::MAX` where there is no timer. Written under the shard's lock.
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

    /// Sets when a shard wants to be looked at; wakes the task if that is before it would wake by itself.
    ///
    /// Sequentially consistent with [`Alarm::sleep_until`]: either the task sees the new time before it sleeps, or this
    /// sees how long it will sleep.
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

    /// Announces the sleep, and answers until when it may last: never longer than was announced, though by the second
    /// look a timer may have been cleared away, or nobody would wake the task for what is due between the two.
    fn sleep_until(&self) -> u64 {
        let announced = self.earliest();
        self.asleep_until.store(announced, Ordering::SeqCst);
        // mutant: alarm does not look again
        // mutant: alarm sleeps longer than announced
        self.earliest().min(announced)
    }
}

impl MemoryStore {
    /// Lets leases and offers end when their time comes, for as long as it is polled. Dropped, it leaves the store as
    /// it is: every command settles its own lock, only nobody would be told in time.
    pub async fn run_expiry(&self) {
        loop {
            while self.settle_due() {
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

    /// Settles what is due now, a bounded batch from each shard. Answers whether any was full, so that more may be due.
    pub fn settle_due(&self) -> bool {
        let now = self.clock.now();
        let mut more = false;
        for at in (0..self.shards.len()).filter(|at| self.alarm.is_due(*at, now)) {
            let mut shard = self.shards[at].lock();
            let now = self.clock.now();
            let settled = (0..DUE_PER_TURN).take_while(|_| {
                shard
                    .with_next_due(now, |slot, sequencer| self.turn_in(slot, sequencer, now, "", |turn| turn.settle()))
                    .is_some()
            });
            more |= settled.count() == DUE_PER_TURN;
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
