//! The memory store beyond the rules: expiry without commands, nothing left behind, tokens that rise across restarts.

use super::*;
use crate::{
    clock::ManualClock,
    domain::{
        command::{Acquire, Candidate},
        ids::{Call, CallId, GrantId, LeaseId, RequestId},
        lease::Terms,
        limits::{ENDED_MEMORY, MIN_TOKEN_AHEAD_MAX},
        name::{Holder, Metadata},
        outcome::AcquireOutcome,
        token::FencingToken,
    },
    store::TestNotices,
};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

const START: StoreTime = StoreTime::from_micros(1_800_000_000_000_000);
const TTL: Duration = Duration::from_secs(30);

/// Counts how often it is read, which is how often the store does anything.
struct CountingClock {
    time: ManualClock,
    asked: AtomicUsize,
}

impl Clock for CountingClock {
    fn now(&self) -> StoreTime {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.time.now()
    }
}

fn store() -> (Arc<CountingClock>, MemoryStore) {
    let clock = Arc::new(CountingClock { time: ManualClock::at(START), asked: AtomicUsize::new(0) });
    let as_clock: Arc<dyn Clock> = clock.clone();
    (clock, MemoryStore::new(as_clock, &Limits::default(), Arc::<TestNotices>::default()))
}

fn name(number: u32) -> LockName {
    LockName::new(format!("lock/{number}")).unwrap()
}

fn take(store: &MemoryStore, name: &LockName) -> (LeaseId, FencingToken) {
    take_for(TTL, store, name)
}

fn acquire(store: &MemoryStore, name: &LockName, ttl: Duration, min_token: u64) -> Outcome {
    let terms = Terms {
        fingerprint: 0,
        ttl,
        holder: Holder::default(),
        metadata: Metadata::default(),
        min_token,
        max_hold: None,
        extra: None,
        mode: Default::default(),
    };
    let candidate =
        Candidate { lease_id: LeaseId(Uuid::new_v4()), grant_id: GrantId(Uuid::new_v4()), attachment: None };
    let call = Call { request: RequestId(Uuid::new_v4()), attempt: 1, id: CallId(1) };
    store.execute(name, Command::Acquire(Acquire { call, terms, wait: false, candidate }))
}

fn take_for(ttl: Duration, store: &MemoryStore, name: &LockName) -> (LeaseId, FencingToken) {
    match acquire(store, name, ttl, 0) {
        Outcome::Acquire(AcquireOutcome::Granted(grant)) => (grant.lease_id, grant.token),
        other => panic!("{other:?}"),
    }
}

fn release(store: &MemoryStore, name: &LockName, lease_id: LeaseId) {
    store.execute(name, Command::Release(lease_id));
}

fn sizes(store: &MemoryStore) -> (usize, usize, usize) {
    store
        .shards
        .iter()
        .map(|shard| shard.lock().sizes())
        .fold((0, 0, 0), |all, one| (all.0 + one.0, all.1 + one.1, all.2 + one.2))
}

#[tokio::test]
async fn locks_that_are_idle_leave_nothing_behind() {
    let (clock, store) = store();
    for number in 0..5_000 {
        let (lease, _) = take(&store, &name(number));
        if number % 2 == 0 {
            release(&store, &name(number), lease);
        }
    }
    assert_eq!(sizes(&store).0, 5_000);
    clock.time.advance(TTL + ENDED_MEMORY);
    while store.apply_due_timers() {}
    assert_eq!(sizes(&store), (0, 0, 0));
    release(&store, &name(1), LeaseId(Uuid::new_v4()));
    store.execute(&name(2), Command::View { token: None });
    assert_eq!(sizes(&store), (0, 0, 0), "a command on an unknown lock creates no lock");
}

#[tokio::test]
async fn a_lock_in_use_has_a_few_timers_however_often_it_is_renewed_and_handed_over() {
    let (clock, store) = store();
    for _ in 0..1_000 {
        let (lease, _) = take(&store, &name(1));
        for _ in 0..10 {
            clock.time.advance(Duration::from_millis(1));
            store.execute(&name(1), Command::Renew { lease_id: lease, ttl: None });
        }
        release(&store, &name(1), lease);
        while store.apply_due_timers() {}
        assert!(sizes(&store).2 <= 3, "{:?}", sizes(&store));
    }
}

#[tokio::test]
async fn the_timers_of_leases_given_back_do_not_pile_up_until_their_ttl_is_over() {
    let (clock, store) = store();
    for number in 0..40_000 {
        let (lease, _) = take(&store, &name(number));
        release(&store, &name(number), lease);
    }
    clock.time.advance(ENDED_MEMORY);
    while store.apply_due_timers() {}
    let (slots, _, timers) = sizes(&store);
    assert_eq!(slots, 0);
    assert!(timers <= SHARDS * 64, "{timers} timers of nothing");
}

#[tokio::test(start_paused = true)]
async fn the_expiry_task_sleeps_until_something_is_due() {
    let (clock, store) = store();
    let hour = Duration::from_secs(60 * 60);
    let asleep = tokio::time::timeout(hour, store.run_expiry());
    assert!(asleep.await.is_err());
    let idle = clock.asked.swap(0, Ordering::SeqCst);
    assert!(idle <= 3, "with nothing to do it does nothing: {idle}");
    take(&store, &name(1));
    // The store's clock is paused, so the task finds after each TTL that the lease is not due yet.
    let asleep = tokio::time::timeout(hour, store.run_expiry());
    assert!(asleep.await.is_err());
    let asked = clock.asked.load(Ordering::SeqCst);
    assert!(asked <= 5 * 120 + 10, "it sleeps for a TTL at a time, 120 times an hour: {asked}");
}

#[tokio::test]
async fn an_earlier_expiry_wakes_the_task() {
    let hub = Arc::<TestNotices>::default();
    let clock: Arc<dyn Clock> = Arc::new(crate::clock::ProcessClock::start());
    let store = MemoryStore::new(clock, &Limits::default(), hub);
    let soon = Duration::from_millis(50);
    let work = async {
        take(&store, &name(1));
        // By now the task sleeps for 30 s.
        tokio::task::yield_now().await;
        let (lease, _) = take(&store, &name(2));
        release(&store, &name(2), lease);
        take_for(soon, &store, &name(3));
        // Looks at the state without a command, which would apply the time by itself.
        let ended = || store.shards.iter().all(|shard| !shard.lock().any_lease_of(&name(3)));
        while !ended() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = store.run_expiry() => {}
        done = tokio::time::timeout(Duration::from_secs(20), work) => done.unwrap(),
    }
}

#[test]
fn a_min_token_is_granted_up_to_a_day_above_the_clock_and_refused_beyond() {
    let (_, store) = store();
    let highest = START.after(MIN_TOKEN_AHEAD_MAX).as_micros();
    let refused = acquire(&store, &name(1), TTL, highest + 1);
    assert_eq!(refused, AcquireOutcome::MinTokenTooHigh(highest).into());
    assert_eq!(sizes(&store), (0, 0, 0));
    let Outcome::Acquire(AcquireOutcome::Granted(grant)) = acquire(&store, &name(1), TTL, highest) else {
        panic!("it is not too high")
    };
    assert_eq!(grant.token.get(), highest);
}

#[tokio::test]
async fn tokens_rise_over_restarts_that_forget_everything() {
    let mut highest = None;
    for restart in 0..50_u64 {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(START.after(Duration::from_millis(10 * restart))));
        let store = MemoryStore::new(clock, &Limits::default(), Arc::<TestNotices>::default());
        for _ in 0..100 {
            let (lease, token) = take(&store, &name(1));
            assert!(Some(token) > highest);
            highest = Some(token);
            release(&store, &name(1), lease);
        }
    }
}
