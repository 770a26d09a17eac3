//! Waiting calls against releases of the lock, and against each other: a lost hint leaves a task that nothing wakes.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod support;

use fencepost_schedules::{
    check,
    domain::{
        limits::{DROP_GRACE, Limits},
        token::FencingToken,
    },
    locks::{AcquireAnswer, Locks, LocksError},
    store::MemoryStore,
    sync::{Mutex, Notify},
    task::{JoinHandle, block_on, spawn},
    time::advance,
};
use std::sync::Arc;
use support::{SECOND, acquire, granted, name, service};

const MINUTE: std::time::Duration = std::time::Duration::from_secs(60);

/// The tokens of all holders so far, and whether the lock is held.
type Held = Arc<Mutex<(Vec<FencingToken>, bool)>>;

/// Holds the lock for a moment, if the answer is a grant.
async fn use_and_release(locks: &Locks<MemoryStore>, held: &Held, answer: &Result<AcquireAnswer, LocksError>) {
    let Ok(AcquireAnswer::Acquired(acquired)) = answer else { return };
    {
        let mut now = held.lock();
        assert!(!std::mem::replace(&mut now.1, true), "one holder at a time");
        now.0.push(acquired.grant.token);
    }
    held.lock().1 = false;
    locks.release(&name("a"), acquired.grant.lease_id).await.unwrap();
}

fn waiter(
    locks: &Arc<Locks<MemoryStore>>,
    held: &Held,
    number: u128,
    wait: std::time::Duration,
) -> JoinHandle<Result<AcquireAnswer, LocksError>> {
    let (locks, held) = (locks.clone(), held.clone());
    spawn(async move {
        let answer = acquire(&locks, &name("a"), number, 1, wait).await;
        use_and_release(&locks, &held, &answer).await;
        answer
    })
}

/// Checks the state after all calls have ended.
async fn assert_idle(locks: &Arc<Locks<MemoryStore>>, held: &Held) {
    assert_eq!(locks.busy(), (0, 0));
    let tokens = held.lock().0.clone();
    assert!(tokens.is_sorted_by(|one, next| one < next), "tokens rise from holder to holder: {tokens:?}");
    let view = locks.view(&name("a"), None).await.unwrap();
    assert_eq!((view.current, view.waiters), (None, 0));
    granted(acquire(locks, &name("a"), 99, 1, std::time::Duration::ZERO).await);
}

/// Seeded mutants that it finds: the call registers only after it has asked the store; it does not register.
#[test]
fn every_waiter_is_served_without_any_time_passing() {
    check(|| {
        block_on(async {
            let (locks, held) = (service(Limits::default()), Held::default());
            let holder = granted(acquire(&locks, &name("a"), 1, 1, MINUTE).await);
            let waiters = [2, 3].map(|number| waiter(&locks, &held, number, MINUTE));
            locks.release(&name("a"), holder.lease_id).await.unwrap();
            for waiter in waiters {
                granted(waiter.await.unwrap());
            }
            assert_eq!(held.lock().0.len(), 2);
            assert_idle(&locks, &held).await;
        });
    });
}

/// Seeded mutant that it finds: the guard of a dropped call does not make the store clean up.
#[test]
fn a_call_dropped_while_it_is_served_blocks_nobody() {
    check(|| {
        block_on(async {
            let (locks, held) = (service(Limits::default()), Held::default());
            let holder = granted(acquire(&locks, &name("a"), 1, 1, MINUTE).await);
            let cancel = Arc::new(Notify::new());
            let dropped = spawn({
                let (locks, held, cancel) = (locks.clone(), held.clone(), cancel.clone());
                async move {
                    let lock = name("a");
                    fencepost_schedules::select! {
                        biased;
                        () = cancel.notified() => {}
                        answer = acquire(&locks, &lock, 2, 1, MINUTE) => use_and_release(&locks, &held, &answer).await,
                    }
                }
            });
            let waits = waiter(&locks, &held, 3, MINUTE);
            let release = spawn({
                let locks = locks.clone();
                async move { locks.release(&name("a"), holder.lease_id).await.unwrap() }
            });
            cancel.notify_one();
            granted(waits.await.unwrap());
            dropped.await.unwrap();
            release.await.unwrap();
            // Its queue position was kept for a retry.
            advance(DROP_GRACE);
            assert_idle(&locks, &held).await;
        });
    });
}

/// Seeded mutant that it finds: the end of the wait does not reach the store.
#[test]
fn a_wait_that_ends_during_an_offer_gets_the_lock_or_leaves_it() {
    check(|| {
        block_on(async {
            let (locks, held) = (service(Limits::default()), Held::default());
            let holder = granted(acquire(&locks, &name("a"), 1, 1, MINUTE).await);
            let waiters = [2, 3].map(|number| waiter(&locks, &held, number, 5 * SECOND));
            let release = spawn({
                let locks = locks.clone();
                async move { locks.release(&name("a"), holder.lease_id).await.unwrap() }
            });
            advance(5 * SECOND);
            // For a waiter that arrives only now.
            advance(5 * SECOND);
            for waiter in waiters {
                let answer = waiter.await.unwrap();
                let ok = matches!(answer, Ok(AcquireAnswer::Acquired(_) | AcquireAnswer::TimedOut(_)));
                assert!(ok, "{answer:?}");
            }
            release.await.unwrap();
            assert_idle(&locks, &held).await;
        });
    });
}

/// Seeded mutant that it finds: an overtaken call is not woken (`wake_overtaken` does nothing).
#[test]
fn a_retry_takes_over_from_the_earlier_call() {
    check(|| {
        block_on(async {
            let locks = service(Limits::default());
            let holder = granted(acquire(&locks, &name("a"), 1, 1, MINUTE).await);
            let attempts = [1, 2].map(|attempt| {
                let locks = locks.clone();
                spawn(async move { acquire(&locks, &name("a"), 2, attempt, MINUTE).await })
            });
            let release = spawn({
                let locks = locks.clone();
                async move { locks.release(&name("a"), holder.lease_id).await.unwrap() }
            });
            let [first, second] = attempts;
            let (first, second) = (first.await.unwrap(), granted(second.await.unwrap()));
            match first {
                Ok(AcquireAnswer::Acquired(first)) => assert_eq!(first.grant.token, second.token),
                other => assert_eq!(other, Err(LocksError::Overtaken)),
            }
            release.await.unwrap();
            assert_eq!(locks.busy(), (0, 0));
        });
    });
}

/// Bug found here: a refused call was counted for a moment and left without a notification. The drain, woken in that
/// moment by the last call to leave, waited again, and nothing woke it.
///
/// Seeded mutants that it finds: the bound is checked before the count is raised; the drain is notified of a leaving
/// call before the count is lowered.
#[test]
fn waiters_are_bounded_and_the_drain_sees_the_last_one_leave() {
    check(|| {
        block_on(async {
            let limits = Limits { waiters_per_server: 1, ..Limits::default() };
            let (locks, held) = (service(limits), Held::default());
            let holder = granted(acquire(&locks, &name("a"), 1, 1, std::time::Duration::ZERO).await);
            let waiters = [2, 3].map(|number| waiter(&locks, &held, number, MINUTE));
            let waiting = locks.view(&name("a"), None).await.unwrap().waiters;
            assert!(waiting <= 1, "{waiting} wait");
            let quiet = spawn({
                let locks = locks.clone();
                async move { locks.quiet().await }
            });
            let drains = spawn({
                let locks = locks.clone();
                async move { locks.drain() }
            });
            locks.release(&name("a"), holder.lease_id).await.unwrap();
            quiet.await.unwrap();
            drains.await.unwrap();
            let mut answers = Vec::new();
            for waiter in waiters {
                answers.push(waiter.await.unwrap());
            }
            for answer in &answers {
                let ok = matches!(
                    answer,
                    Ok(AcquireAnswer::Acquired(_)) | Err(LocksError::ServerFull { max: 1 } | LocksError::Draining)
                );
                assert!(ok, "{answer:?}");
            }
            let full = answers.iter().filter(|answer| matches!(answer, Err(LocksError::ServerFull { .. }))).count();
            assert!(full < 2, "one may wait");
            assert_eq!(locks.busy(), (0, 0));
        });
    });
}
