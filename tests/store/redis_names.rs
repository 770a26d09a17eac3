//! Many lock names, each used once, leave no keys in Redis. A test target of its own, because it keeps the machine
//! busy.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../support/asks.rs"]
mod asks;
#[path = "../support/notices.rs"]
mod notices;
#[path = "../support/redis.rs"]
mod redis_server;

use asks::{Asks as _, acquire, new_request};
use fencepost::testing::{
    clock::ProcessClock,
    domain::{
        ids::LeaseId,
        lease::LeaseEnd,
        limits::{ENDED_MEMORY, Limits, RETRY_DELAY},
        name::LockName,
        outcome::{AcquireOutcome, Fate, Gone, ReleaseOutcome},
    },
    node::RedisUrl,
    store::{
        StoreError,
        quorum::{ClusterStore, config::bootstrap::PARTITIONS, nodes::addresses::Addresses},
    },
};
use notices::NoNotices;
use redis_server::{Answer, Redis};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// `make redis-million` uses more.
const NAMES: usize = 50_000;
/// Concurrent callers.
const CALLERS: usize = 256;
/// One lease of this many is not released.
const EXPIRING: usize = 10;
const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);
/// From the last end: a TTL, the memory of ended requests, and slack for a busy machine.
const CLEAN_MAX: Duration = Duration::from_secs(SHORT.as_secs() + ENDED_MEMORY.as_secs() + 19);
/// The keys that stay: a header and a sequencer for each partition, the cluster, its servers, the prefix of classic
/// clients, and the key that keeps earlier versions away.
const STAYING_MAX: usize = 2 * PARTITIONS as usize + 4;

type Store = ClusterStore<Addresses>;
/// The memory of these keys and of the scripts.
const GROWTH_MAX: u64 = 2 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn lock_names_that_were_used_once_leave_no_keys() {
    let names = std::env::var("FENCEPOST_NAMES").map_or(NAMES, |text| text.parse().unwrap());
    let redis = Redis::start(&[]);
    let number = |section, field| redis.info(section, field).parse::<u64>().unwrap();
    let before = number("memory", "used_memory");
    let addresses = Addresses::new([RedisUrl::parse(&redis.url()).unwrap()]);
    let (members, clock) = (addresses.members(), Arc::new(ProcessClock::start()));
    let store = Arc::new(Store::new(addresses, members, clock, &Limits::default(), Arc::new(NoNotices)));
    let running = store.clone();
    let running = tokio::spawn(async move { running.run().await });
    tokio::time::timeout(Duration::from_secs(20), store.up().wait_for(|up| *up)).await.unwrap().unwrap();

    let begun = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(call(store.clone(), next.clone(), names))).collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let took = begun.elapsed();
    let peak = number("memory", "used_memory");
    println!("{names} names in {took:?}; then {} keys in {} KiB", redis.command(&["DBSIZE"]).text(), peak / 1024);

    let ended = Instant::now();
    while redis.command(&["DBSIZE"]).text().parse::<usize>().unwrap() > STAYING_MAX {
        let left = redis.command(&["DBSIZE"]).text();
        assert!(ended.elapsed() < CLEAN_MAX, "{left} keys are left after {CLEAN_MAX:?}");
        sleep(Duration::from_millis(50)).await;
    }
    let Answer::List(left) = redis.command(&["KEYS", "*"]) else { panic!("KEYS returns a list") };
    let left: Vec<String> = left.iter().map(Answer::text).collect();
    let stays = |key: &String| !key.contains("}:q") || key.ends_with(":h") || key.ends_with(":s");
    assert!(left.iter().all(stays), "{:?}", left.iter().find(|key| !stays(key)));
    let after = number("memory", "used_memory");
    println!("{} keys in {} KiB after {:?}; {} KiB at first", left.len(), after / 1024, ended.elapsed(), before / 1024);
    assert!(after < before + GROWTH_MAX, "{after} after {before}");
    running.abort();
}

async fn call(store: Arc<Store>, next: Arc<AtomicUsize>, names: usize) {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= names {
            return;
        }
        let name = LockName::new(format!("names/{number}")).unwrap();
        let request = new_request();
        let released = !number.is_multiple_of(EXPIRING);
        let mut command = acquire(request, if released { LONG } else { SHORT }, false);
        let lease_id = command.candidate.lease_id;
        // Like a client, retries if the outcome is unknown.
        let outcome = loop {
            match store.acquire(&name, command.clone()).await {
                Ok(outcome) => break outcome,
                Err(error) => wait_to_retry(error).await,
            }
            command.call.attempt += 1;
        };
        let expired = command.call.attempt > 1 && !released && outcome == AcquireOutcome::Ended;
        assert!(matches!(outcome, AcquireOutcome::Granted(_)) || expired, "{outcome:?}");
        if released {
            release(&store, &name, lease_id).await;
        }
    }
}

async fn release(store: &Store, name: &LockName, lease_id: LeaseId) {
    let gone = ReleaseOutcome::Gone(Gone { fate: Fate::Ended(LeaseEnd::Released), successor: None });
    let mut first = true;
    loop {
        match store.release(name, lease_id).await {
            Ok(outcome) if outcome == ReleaseOutcome::Released || !first && outcome == gone => return,
            Ok(outcome) => panic!("{outcome:?}"),
            Err(error) => wait_to_retry(error).await,
        }
        first = false;
    }
}

async fn wait_to_retry(error: StoreError) {
    assert!(matches!(error, StoreError::OutcomeUnknown(_) | StoreError::Unavailable(_)), "{error}");
    sleep(RETRY_DELAY).await;
}
