//! The expiry task against those who give it something to do while it goes to sleep.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod support;

use fencepost_schedules::{
    check,
    clock::Clock,
    domain::{command::Command, limits::Limits},
    store::{Event, EventKind, MemoryStore, Store as _},
    task::{JoinHandle, block_on, spawn},
    time::{StandingClock, advance},
};
use std::sync::Arc;
use support::{Ear, SECOND, candidate, name, take};

fn store(shards: usize) -> (Arc<Ear>, Arc<MemoryStore>) {
    let ear = Arc::new(Ear::default());
    let clock: Arc<dyn Clock> = Arc::new(StandingClock);
    (ear.clone(), Arc::new(MemoryStore::with_shards(shards, clock, &Limits::default(), ear)))
}

fn run_expiry(store: &Arc<MemoryStore>) -> JoinHandle<()> {
    let store = store.clone();
    spawn(async move { store.run_expiry().await })
}

fn is_expired(lock: &'static str) -> impl Fn(&Event) -> bool {
    move |event| event.kind == EventKind::Expired && event.name.as_str() == lock
}

/// Seeded and found: the task sleeps until the time that it announced, without a second look (`earliest` once in
/// `sleep_until`); the time that a shard wants is set after the look at the task's (the two operations of `Alarm::set`
/// swapped); no wake-up.
#[test]
fn a_lease_that_is_due_before_the_task_would_wake_ends_in_time() {
    check(|| {
        block_on(async {
            let (ear, store) = store(2);
            let expiry = run_expiry(&store);
            take(&store, &name("first"), 1, 5 * SECOND).await;
            let taker = spawn({
                let store = store.clone();
                async move { take(&store, &name("second"), 2, 2 * SECOND).await }
            });
            advance(5 * SECOND);
            taker.await.unwrap();
            // The task may be on its way to sleep until the end of the first lease is forgotten, at 15 s.
            advance(2 * SECOND);
            ear.hear(is_expired("first")).await;
            ear.hear(is_expired("second")).await;
            expiry.abort();
        });
    });
}

/// The times that a shard wants rise as well: void timers are cleared away, and the one that was next is gone.
///
/// This found that the task could sleep longer than it had announced, for ever if it found no timer at its second look;
/// and since what it had announced lay in the past by then, no later lease woke it again.
#[test]
fn a_timer_that_is_cleared_away_does_not_put_the_task_to_sleep_for_good() {
    /// As many void timers as a shard keeps.
    const VOID: u128 = 32;
    check(|| {
        block_on(async {
            let (ear, store) = store(1);
            for number in 1..=VOID {
                let lock = name(&number.to_string());
                let grant = take(&store, &lock, number, 30 * SECOND).await;
                store.post(&lock, Command::Release(grant.lease_id));
            }
            advance(SECOND);
            let last = take(&store, &name("last"), VOID + 1, 30 * SECOND).await;
            store.post(&name("last"), Command::Release(last.lease_id));
            advance(9 * SECOND);
            while store.settle_due() {}
            // Left is one lock, of which there is something to forget in a second, and the void timers.
            let expiry = run_expiry(&store);
            let toucher = spawn({
                let store = store.clone();
                async move {
                    advance(SECOND);
                    store.post(&name("last"), Command::Release(candidate(0).lease_id));
                    take(&store, &name("new"), VOID + 2, 5 * SECOND).await;
                }
            });
            toucher.await.unwrap();
            advance(5 * SECOND);
            ear.hear(is_expired("new")).await;
            expiry.abort();
        });
    });
}
