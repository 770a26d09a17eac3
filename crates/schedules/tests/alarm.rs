//! The expiry task against tasks that set timers while it goes to sleep.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod support;

use fencepost_schedules::{
    check,
    clock::Clock,
    domain::{command::Command, limits::Limits},
    store::{Event, EventKind, MemoryStore, Store as _},
    task::{JoinHandle, block_on, spawn},
    time::{SimulatedClock, advance},
};
use std::sync::Arc;
use support::{EventRecorder, SECOND, acquire_free, candidate, name};

fn store(shards: usize) -> (Arc<EventRecorder>, Arc<MemoryStore>) {
    let recorder = Arc::new(EventRecorder::default());
    let clock: Arc<dyn Clock> = Arc::new(SimulatedClock);
    (recorder.clone(), Arc::new(MemoryStore::with_shards(shards, clock, &Limits::default(), recorder)))
}

fn run_expiry(store: &Arc<MemoryStore>) -> JoinHandle<()> {
    let store = store.clone();
    spawn(async move { store.run_expiry().await })
}

fn is_expired(lock: &'static str) -> impl Fn(&Event) -> bool {
    move |event| event.kind == EventKind::Expired && event.name.as_str() == lock
}

/// Seeded mutants that it finds: the task sleeps until the announced time without checking again (`earliest` called
/// once in `sleep_until`); a shard's next time is set after the check of the task's (the two operations of `Alarm::set`
/// swapped); no wake-up.
#[test]
fn a_lease_due_before_the_task_would_wake_ends_in_time() {
    check(|| {
        block_on(async {
            let (recorder, store) = store(2);
            let expiry = run_expiry(&store);
            acquire_free(&store, &name("first"), 1, 5 * SECOND).await;
            let second = spawn({
                let store = store.clone();
                async move { acquire_free(&store, &name("second"), 2, 2 * SECOND).await }
            });
            advance(5 * SECOND);
            second.await.unwrap();
            // The task may be going to sleep until 15 s, when the end of the first lease is forgotten.
            advance(2 * SECOND);
            recorder.wait_for(is_expired("first")).await;
            recorder.wait_for(is_expired("second")).await;
            expiry.abort();
        });
    });
}

/// A shard's next time also moves back: void timers are removed, the next one among them.
///
/// Bug found here: the task could sleep longer than it had announced, forever if it found no timer when it checked
/// again. What it had announced was then in the past, so no later lease woke it.
#[test]
fn a_removed_timer_does_not_put_the_task_to_sleep_forever() {
    /// The number of void timers that a shard keeps.
    const VOID: u128 = 32;
    check(|| {
        block_on(async {
            let (recorder, store) = store(1);
            for number in 1..=VOID {
                let lock = name(&number.to_string());
                let grant = acquire_free(&store, &lock, number, 30 * SECOND).await;
                store.post(&lock, Command::Release(grant.lease_id));
            }
            advance(SECOND);
            let last = acquire_free(&store, &name("last"), VOID + 1, 30 * SECOND).await;
            store.post(&name("last"), Command::Release(last.lease_id));
            advance(9 * SECOND);
            while store.apply_due_timers() {}
            // Left are one lock with something to forget in a second, and the void timers.
            let expiry = run_expiry(&store);
            let other = spawn({
                let store = store.clone();
                async move {
                    advance(SECOND);
                    store.post(&name("last"), Command::Release(candidate(0).lease_id));
                    acquire_free(&store, &name("new"), VOID + 2, 5 * SECOND).await;
                }
            });
            other.await.unwrap();
            advance(5 * SECOND);
            recorder.wait_for(is_expired("new")).await;
            expiry.abort();
        });
    });
}
