//! Those who wait, and classic clients.

use super::{LONG, TTL, classic_acquire, classic_release, sharing, until_free, value};
use crate::{
    redis_server::Redis,
    support::{Lock, acquire_request, only, read, until, waiting_request, within},
};
use fencepost_proto::v1::{LeaseEnd, acquire_response::Outcome};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

#[tokio::test]
async fn a_lock_held_by_a_classic_client_is_contended_and_passes_to_waiters() {
    let redis = Redis::start(&[]);
    let (one, two) = (sharing(&redis).await, sharing(&redis).await);
    assert!(classic_acquire(&redis, "mine", 60_000));
    let refused = one.client().acquire_response(acquire_request("a", TTL)).await;
    assert_eq!(refused.outcome(), Outcome::Contended);
    let current = only(refused.holders).unwrap();
    assert_eq!((current.holder.as_str(), current.grant_id.as_str(), current.fencing_token), ("classic client", "", 0));
    assert!(read(current.expires_in) > Duration::from_secs(30));
    assert_eq!(two.client().holder("a").await.unwrap().holder, "classic client");
    for (server, end) in [(&one, "released"), (&two, "expired")] {
        let mut waiting = server.client();
        let waiter = tokio::spawn(async move { waiting.acquire_lease(waiting_request("a", TTL, LONG)).await });
        until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
        match end {
            "expired" => drop(redis.command(&["PEXPIRE", "lock:a", "50"])),
            _ => classic_release(&redis, "mine"),
        }
        let lease = within(waiter).await.unwrap();
        assert_eq!(value(&redis), Some(lease.grant_id.clone()), "{end}");
        server.client().release_lease(&lease).await;
        until(|| async { classic_acquire(&redis, "mine", 60_000) }).await;
    }
    redis.command(&["PERSIST", "lock:a"]);
    assert_eq!(one.client().holder("a").await.unwrap().expires_in, None, "the classic lock has no TTL");
}

/// Nothing is between two leases of those who wait, whatever server they wait at.
#[tokio::test(flavor = "multi_thread")]
async fn a_classic_client_does_not_overtake_those_who_wait() {
    let redis = Arc::new(Redis::start(&[]));
    let servers = [sharing(&redis).await, sharing(&redis).await];
    let first = servers[0].client().acquire_lease(acquire_request("a", TTL)).await;
    let mut waiters = Vec::new();
    for number in 0..6 {
        let mut client = servers[number % 2].client();
        waiters.push(tokio::spawn(async move { client.acquire_lease(waiting_request("a", TTL, LONG)).await }));
        let queued = u64::try_from(number).unwrap() + 1;
        until(|| async { u64::from(servers[0].client().lock_info("a").await.waiters) == queued }).await;
    }
    let (taken, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (own, tries) = ((redis.clone(), taken.clone(), done.clone()), Arc::new(AtomicU32::new(0)));
    let tried = tries.clone();
    let classic = std::thread::spawn(move || {
        let (redis, taken, done) = own;
        while !taken.load(Ordering::SeqCst) && !done.load(Ordering::SeqCst) {
            taken.fetch_or(classic_acquire(&redis, "overtakes", 60_000), Ordering::SeqCst);
            tried.fetch_add(1, Ordering::SeqCst);
        }
    });
    let mut held = first;
    for waiter in waiters {
        let before = tries.load(Ordering::SeqCst);
        until(|| async { tries.load(Ordering::SeqCst) > before || taken.load(Ordering::SeqCst) }).await;
        assert_eq!(servers[1].client().release_lease(&held).await, LeaseEnd::Released);
        held = within(waiter).await.unwrap();
        assert!(!taken.load(Ordering::SeqCst), "a classic client came between");
    }
    servers[1].client().release_lease(&held).await;
    until(|| async { taken.load(Ordering::SeqCst) }).await;
    done.store(true, Ordering::SeqCst);
    classic.join().unwrap();
}

/// The key of an offer that nobody takes.
#[tokio::test]
async fn a_lock_that_nobody_takes_is_free_for_classic_clients() {
    let redis = Redis::start(&[]);
    let server = sharing(&redis).await;
    assert!(classic_acquire(&redis, "mine", 60_000));
    let mut waiting = server.client();
    let waiter = tokio::spawn(async move { waiting.acquire(waiting_request("a", TTL, LONG)).await });
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    waiter.abort();
    let _ = waiter.await;
    until(|| async { server.client().lock_info("a").await.waiters == 0 }).await;
    classic_release(&redis, "mine");
    until(|| async { classic_acquire(&redis, "next", 60_000) }).await;
    classic_release(&redis, "next");
    until_free(&redis).await;
}

/// Both kinds of clients at once, through two servers. Both make progress.
#[tokio::test(flavor = "multi_thread")]
async fn classic_clients_and_ours_exclude_each_other() {
    const ROUNDS: u32 = 10;
    let redis = Arc::new(Redis::start(&[]));
    let servers = [sharing(&redis).await, sharing(&redis).await];
    let (inside, ours, theirs) = (Arc::new(AtomicU32::new(0)), Arc::default(), Arc::new(AtomicU32::new(0)));
    let done = Arc::new(AtomicBool::new(false));
    let work = |inside: Arc<AtomicU32>, count: Arc<AtomicU32>| async move {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
        tokio::time::sleep(Duration::from_millis(2)).await;
        inside.fetch_sub(1, Ordering::SeqCst);
        count.fetch_add(1, Ordering::SeqCst);
    };
    let mut waiters = Vec::new();
    for number in 0..6 {
        let (mut client, inside, ours) = (servers[number % 2].client(), inside.clone(), Arc::clone(&ours));
        waiters.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let lease = client.acquire_lease(waiting_request("a", TTL, LONG)).await;
                work(inside.clone(), Arc::clone(&ours)).await;
                assert_eq!(client.release_lease(&lease).await, LeaseEnd::Released);
                // Without waiters for a while, so that classic clients acquire the lock too.
                tokio::time::sleep(Duration::from_millis(40)).await;
            }
        }));
    }
    let mut classics = Vec::new();
    for number in 0..3 {
        let (redis, inside, theirs, done) = (redis.clone(), inside.clone(), theirs.clone(), done.clone());
        classics.push(tokio::spawn(async move {
            let value = format!("classic {number}");
            while !done.load(Ordering::SeqCst) {
                if classic_acquire(&redis, &value, 60_000) {
                    work(inside.clone(), theirs.clone()).await;
                    classic_release(&redis, &value);
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        }));
    }
    for waiter in waiters {
        tokio::time::timeout(LONG, waiter).await.expect("waiters are served").unwrap();
    }
    // Our last client has released, so classic clients acquire the lock.
    let before = theirs.load(Ordering::SeqCst);
    until(|| async { theirs.load(Ordering::SeqCst) > before }).await;
    done.store(true, Ordering::SeqCst);
    for classic in classics {
        within(classic).await.unwrap();
    }
    assert_eq!(ours.load(Ordering::SeqCst), 6 * ROUNDS);
}
