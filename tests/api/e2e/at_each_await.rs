//! The service's acquire, dropped at each await. Gates before and after each command of a real store hold a call where
//! it is dropped. The test moves the time.

use crate::{
    asks::acquire_call,
    gated::{Gate, GatedStore},
};
use fencepost::testing::{
    clock::{Clock, ManualClock},
    domain::{
        ids::{LeaseId, RequestId},
        limits::{DROP_GRACE, Limits},
        name::LockName,
        outcome::{LockView, ReleaseOutcome},
        time::StoreTime,
    },
    locks::{AcquireAnswer, AcquireCall, Hub, Locks, LocksError},
    store::{StoreError, memory::MemoryStore},
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use uuid::Uuid;

const TTL: Duration = Duration::from_secs(30);

struct Bench {
    clock: Arc<ManualClock>,
    store: Arc<GatedStore>,
    locks: Locks<GatedStore>,
    name: LockName,
}

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(StoreTime::from_micros(1_800_000_000_000_000)));
        let hub = Arc::new(Hub::new());
        let limits = Limits::default();
        let as_clock: Arc<dyn Clock> = clock.clone();
        let inner = Arc::new(MemoryStore::new(as_clock, &limits, hub.clone()));
        let store = Arc::new(GatedStore::new(inner));
        let locks = Locks::new(store.clone(), hub, limits);
        Self { clock, store, locks, name: LockName::new("a").unwrap() }
    }

    fn call(number: u128, attempt: u32, wait: Duration) -> AcquireCall {
        acquire_call(RequestId(Uuid::from_u128(number)), attempt, TTL, wait)
    }

    async fn acquire(&self, call: AcquireCall) -> Result<AcquireAnswer, LocksError> {
        self.locks.acquire(&self.name, call).await
    }

    async fn acquire_lease(&self, call: AcquireCall) -> LeaseId {
        match self.acquire(call).await {
            Ok(AcquireAnswer::Acquired(acquired)) => acquired.grant.lease_id,
            other => panic!("expected a lease: {other:?}"),
        }
    }

    /// Runs a call up to a gate, and drops it there.
    async fn drop_at(&self, gate: Gate, call: AcquireCall, meanwhile: impl Future<Output = ()>) {
        *self.store.shut.lock().unwrap() = Some(gate);
        let call = self.acquire(call);
        tokio::select! {
            biased;
            answer = call => panic!("answered before {gate:?}: {answer:?}"),
            () = async { meanwhile.await; self.store.reached.notified().await } => {}
        }
        *self.store.shut.lock().unwrap() = None;
    }

    async fn view(&self) -> LockView {
        self.locks.view(&self.name, None).await.unwrap()
    }

    fn pass(&self, span: Duration) {
        self.clock.advance(span);
        while self.store.inner.apply_due_timers() {}
    }

    async fn release(&self, lease_id: LeaseId) {
        assert_eq!(self.locks.release(&self.name, lease_id).await, Ok(ReleaseOutcome::Released));
    }

    /// Checks that the dropped call leaves no state after the grace period: the lock is free.
    async fn assert_nothing_left(&self) {
        self.pass(DROP_GRACE);
        let view = self.view().await;
        assert_eq!((view.current, view.waiters), (None, 0));
        let lease = self.acquire_lease(Self::call(99, 1, Duration::ZERO)).await;
        self.release(lease).await;
    }

    /// The time left of the current lease.
    async fn left(&self) -> Duration {
        self.view().await.current.unwrap().left
    }
}

const WAIT: Duration = Duration::from_secs(600);

#[tokio::test(start_paused = true)]
async fn a_call_dropped_before_its_command_leaves_nothing() {
    let bench = Bench::new();
    bench.drop_at(Gate::BeforeAcquire, Bench::call(1, 1, Duration::ZERO), async {}).await;
    bench.assert_nothing_left().await;
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_call_dropped_after_the_grant_is_cut_short_and_a_retry_restores_its_ttl() {
    let bench = Bench::new();
    bench.drop_at(Gate::AfterAcquire, Bench::call(1, 1, Duration::ZERO), async {}).await;
    assert_eq!(bench.left().await, DROP_GRACE);
    bench.assert_nothing_left().await;

    bench.drop_at(Gate::AfterAcquire, Bench::call(2, 1, Duration::ZERO), async {}).await;
    bench.pass(DROP_GRACE / 2);
    let lease = bench.acquire_lease(Bench::call(2, 2, Duration::ZERO)).await;
    assert_eq!(bench.left().await, TTL);
    bench.release(lease).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_outcome_is_unknown_is_cleaned_up_like_a_dropped_one() {
    let bench = Bench::new();
    bench.store.loses_answers.store(true, Ordering::SeqCst);
    for (number, wait) in [(1, Duration::ZERO), (2, WAIT)] {
        let failed = bench.acquire(Bench::call(number, 1, wait)).await;
        assert!(matches!(failed, Err(LocksError::Store(StoreError::OutcomeUnknown(_)))), "{failed:?}");
    }
    let view = bench.view().await;
    assert_eq!((view.current.unwrap().left, view.waiters), (DROP_GRACE, 1));
    bench.store.loses_answers.store(false, Ordering::SeqCst);
    bench.assert_nothing_left().await;
}

#[tokio::test(start_paused = true)]
async fn the_queue_position_of_a_call_dropped_after_it_was_queued_is_kept_for_the_grace_period() {
    for retry in [false, true] {
        let bench = Bench::new();
        let holder = bench.acquire_lease(Bench::call(1, 1, Duration::ZERO)).await;
        bench.drop_at(Gate::AfterAcquire, Bench::call(2, 1, WAIT), async {}).await;
        assert_eq!(bench.view().await.waiters, 1);
        if retry {
            bench.release(holder).await;
            bench.acquire_lease(Bench::call(2, 2, WAIT)).await;
        } else {
            bench.release(holder).await;
            bench.assert_nothing_left().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_waiter_behind_a_dropped_one_is_served() {
    let bench = Bench::new();
    let holder = bench.acquire_lease(Bench::call(1, 1, Duration::ZERO)).await;
    {
        let waiting = bench.acquire(Bench::call(2, 1, WAIT));
        tokio::select! {
            biased;
            answer = waiting => panic!("answered: {answer:?}"),
            () = std::future::ready(()) => {}
        }
    }
    let next = bench.acquire(Bench::call(3, 1, WAIT));
    let (next, ()) = tokio::join!(biased; next, bench.release(holder));
    assert!(matches!(next, Ok(AcquireAnswer::Acquired(_))), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_before_or_after_its_claim_does_not_keep_the_lock() {
    for gate in [Gate::BeforeClaim, Gate::AfterClaim] {
        let bench = Bench::new();
        let holder = bench.acquire_lease(Bench::call(1, 1, Duration::ZERO)).await;
        bench.drop_at(gate, Bench::call(2, 1, WAIT), bench.release(holder)).await;
        bench.assert_nothing_left().await;

        let holder = bench.acquire_lease(Bench::call(4, 1, Duration::ZERO)).await;
        bench.drop_at(gate, Bench::call(5, 1, WAIT), bench.release(holder)).await;
        bench.acquire_lease(Bench::call(5, 2, WAIT)).await;
        assert_eq!(bench.left().await, TTL, "{gate:?}: the retry has its full TTL");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_claim_was_too_late_leaves_the_queue_after_the_grace_period() {
    let bench = Bench::new();
    let holder = bench.acquire_lease(Bench::call(1, 1, Duration::ZERO)).await;
    bench.store.late.store(true, Ordering::SeqCst);
    let (waiting, ()) = tokio::join!(biased; bench.acquire(Bench::call(2, 1, WAIT)), bench.release(holder));
    assert!(matches!(waiting, Err(LocksError::Store(StoreError::TooLate))), "{waiting:?}");
    bench.store.late.store(false, Ordering::SeqCst);
    let lease = bench.acquire_lease(Bench::call(2, 2, Duration::ZERO)).await;
    bench.release(lease).await;

    let holder = bench.acquire_lease(Bench::call(3, 1, Duration::ZERO)).await;
    bench.store.late.store(true, Ordering::SeqCst);
    let (waiting, ()) = tokio::join!(biased; bench.acquire(Bench::call(4, 1, WAIT)), bench.release(holder));
    assert!(matches!(waiting, Err(LocksError::Store(StoreError::TooLate))), "{waiting:?}");
    bench.assert_nothing_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_before_or_after_giving_up_leaves_the_queue() {
    for gate in [Gate::BeforeGiveUp, Gate::AfterGiveUp] {
        let bench = Bench::new();
        let holder = bench.acquire_lease(Bench::call(1, 1, Duration::ZERO)).await;
        bench.drop_at(gate, Bench::call(2, 1, Duration::from_secs(1)), async {}).await;
        bench.release(holder).await;
        bench.assert_nothing_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_attempt_share_the_request_until_the_last_is_dropped() {
    let bench = Bench::new();
    let holder = bench.acquire_lease(Bench::call(1, 1, Duration::ZERO)).await;
    let survivor = bench.acquire(Bench::call(2, 1, WAIT));
    let other = async {
        bench.drop_at(Gate::AfterAcquire, Bench::call(2, 1, WAIT), async {}).await;
        bench.release(holder).await;
    };
    let (survivor, ()) = tokio::join!(biased; survivor, other);
    assert!(matches!(survivor, Ok(AcquireAnswer::Acquired(_))), "{survivor:?}");
    assert_eq!(bench.left().await, TTL, "the cleanup of one call does not affect the other");
}

#[tokio::test(start_paused = true)]
async fn a_drain_refuses_waiters_and_keeps_their_queue_positions_for_a_retry() {
    let bench = Bench::new();
    bench.acquire_lease(Bench::call(1, 1, Duration::ZERO)).await;
    let (waiting, ()) = tokio::join!(biased; bench.acquire(Bench::call(2, 1, WAIT)), async { bench.locks.drain() });
    assert_eq!(waiting, Err(LocksError::Draining));
    assert_eq!(bench.view().await.waiters, 1);
    assert_eq!(bench.acquire(Bench::call(3, 1, Duration::ZERO)).await, Err(LocksError::Draining));
}
