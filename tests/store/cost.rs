//! Memory costs: allocations of an uncontended acquire and release, and bytes for a lease and a waiting call. Counted
//! and not timed, so the figures are the same on every machine.
#![allow(clippy::unwrap_used, reason = "test code")]

use allocation_counter::{AllocationInfo, measure};
use fencepost::{
    clock::{Clock, ProcessClock},
    domain::{
        ids::{Call, CallId, RequestId},
        lease::Terms,
        limits::{Limits, METADATA_BYTES_MAX},
        name::{Holder, LockName, Metadata},
    },
    locks::{AcquireAnswer, AcquireCall, Hub, Locks},
    store::memory::MemoryStore,
};
use std::{future::Future, pin::pin, sync::Arc, task::Context, time::Duration};
use tokio::time::Instant;
use uuid::Uuid;

type Service = Locks<MemoryStore>;

fn service() -> Service {
    let hub = Arc::new(Hub::new());
    let clock: Arc<dyn Clock> = Arc::new(ProcessClock::start());
    let store = Arc::new(MemoryStore::new(clock, &Limits::default(), hub.clone()));
    Locks::new(store, hub, Limits::default())
}

fn call(wait: Duration) -> AcquireCall {
    let holder = Holder::new("host-17:worker-4".into()).unwrap();
    let terms =
        Terms { fingerprint: 0, ttl: Duration::from_secs(30), holder, metadata: Metadata::default(), min_token: 0 };
    let request = RequestId(Uuid::new_v4());
    AcquireCall {
        call: Call { request, attempt: 1, id: CallId(1) },
        terms,
        wait,
        arrived: Instant::now(),
        deadline: None,
        attachment: None,
        waiter: None,
    }
}

fn name(number: usize) -> LockName {
    LockName::new(format!("orders/{number:08}")).unwrap()
}

/// The result of a future that is ready at its first poll, so it neither awaits nor spawns.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => panic!("an uncontended call does not await"),
    }
}

fn acquire_and_release(locks: &Service, name: &LockName, wait: Duration) {
    let answer = now(locks.acquire(name, call(wait)));
    let Ok(AcquireAnswer::Acquired(acquired)) = answer else { panic!("{answer:?}") };
    now(locks.release(name, acquired.grant.lease_id)).unwrap();
}

/// The allocations after a measure_warm-up, in which the tables grow.
fn measure_warm(mut act: impl FnMut()) -> AllocationInfo {
    (0..200).for_each(|_| act());
    let mut best: Option<AllocationInfo> = None;
    for _ in 0..50 {
        let info = measure(&mut act);
        if best.as_ref().is_none_or(|best| info.count_total < best.count_total) {
            best = Some(info);
        }
    }
    best.unwrap()
}

#[test]
fn an_uncontended_acquire_and_release_makes_at_most_3_allocations() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let locks = service();
    let name = name(0);
    // One allocation: the holder's label. The memory of ended requests is in tables that have grown already.
    let tried = measure_warm(|| acquire_and_release(&locks, &name, Duration::ZERO));
    assert!(tried.count_total <= 1, "{tried:?}");
    // Two more: a call that may wait is registered as a waiter before the command, so that no hint is lost.
    let waiting = measure_warm(|| acquire_and_release(&locks, &name, Duration::from_secs(1)));
    assert!(waiting.count_total <= 3, "{waiting:?}");
    println!(
        "allocations of an acquire and release: {} without waiting, {} if it may wait",
        tried.count_total, waiting.count_total
    );
}

#[test]
fn metadata_costs_at_most_4_times_its_size() {
    let pairs: Vec<_> = (0..METADATA_BYTES_MAX / 3).map(|number| (format!("{number:03x}"), String::new())).collect();
    let mut kept = None;
    let cost = measure(|| kept = Some(Metadata::new(pairs.clone()).unwrap()));
    assert!(cost.bytes_current <= 4 * METADATA_BYTES_MAX as i64, "{cost:?}");
    assert_eq!(kept.unwrap().pairs().count(), pairs.len());
}

#[test]
fn a_lease_and_a_waiting_call_cost_less_than_two_kilobytes() {
    const COUNT: usize = 10_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let locks = service();
    let held = measure(|| {
        for number in 0..COUNT {
            let name = name(number);
            assert!(matches!(now(locks.acquire(&name, call(Duration::ZERO))), Ok(AcquireAnswer::Acquired(_))));
        }
    });
    let per_lease = held.bytes_current / COUNT as i64;
    let contended = name(0);
    let mut waiting = Vec::with_capacity(COUNT);
    let waited = measure(|| {
        for _ in 0..COUNT {
            let mut future = Box::pin(locks.acquire(&contended, call(Duration::from_secs(60))));
            let polled = future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()));
            assert!(polled.is_pending());
            waiting.push(future);
        }
    });
    let per_waiter = waited.bytes_current / COUNT as i64;
    println!("bytes: {per_lease} per lease, {per_waiter} per waiting call (without the transport)");
    assert!(per_lease < 2_048 && per_waiter < 2_048, "{per_lease} {per_waiter}");
}
