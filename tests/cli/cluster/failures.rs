//! Servers that act as one, of which some die and some leave.

use crate::{
    binary::await_that,
    several::{Cluster, LOCKS, Member, PARTITIONS, TTL, acquired, client, name, queued, release, served, shown, waits},
    support::{PATIENCE, within},
};
use fencepost_client::Status;
use nix::sys::signal::Signal;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// After so long no place of a call that was dropped is kept: 3 s, and 3 s more at a new leader.
const NOT_KEPT: Duration = Duration::from_secs(7);
/// A server whose beats have stopped is taken for dead after 1.2 s, no sooner.
const UNSUSPECTED: Duration = Duration::from_millis(800);
/// How long after the last change of a leader the figures of the servers may be behind, on a very busy machine.
const FIGURES_MAX: Duration = Duration::from_secs(5);

#[tokio::test]
async fn servers_act_as_one() {
    let cluster = Cluster::start();
    let clients: Vec<_> = cluster.servers.iter().map(Member::client).collect();
    for number in 0..LOCKS {
        let (lock, turn) = (name(number), |step: usize| &clients[(number + step) % 3]);
        let first = acquired(turn(0), &lock).await;
        let waiter = waits(turn(1), &lock);
        queued(turn(2), &lock, 1).await;
        release(turn(2), &first).await;
        let second = served(waiter).await;
        assert!(second.fencing_token > first.fencing_token, "{second:?} after {first:?}");
        release(turn(0), &second).await;
    }
    let [one, two, three] = [0, 1, 2].map(|at| &cluster.servers[at].server);
    let held = one.run(&["acquire", "by/hand", "--ttl", "1m"]).expect(0);
    let waiting = two.spawn(&["acquire", "by/hand", "--ttl", "1m", "--wait", "50s"]);
    await_that("a waiter", || three.waiters("by/hand") == 1);
    assert!(three.run(&["ls", "by/"]).out.contains(held.field("token")));
    three.run(&["release", "by/hand", "--lease-id", held.field("lease id")]).expect(0);
    let token = |text: &str| text.parse::<u64>().unwrap();
    assert!(token(waiting.ended().expect(0).field("token")) > token(held.field("token")));
}

#[tokio::test]
async fn what_a_killed_server_led_is_led_by_the_others_within_seconds() {
    let mut cluster = Cluster::start();
    cluster.order_by_lead();
    let dying = cluster.servers.remove(0);
    assert!(dying.leads() >= PARTITIONS / 3, "else its death shows nothing");
    let [second, third] = [&cluster.servers[0], &cluster.servers[1]];
    // Its clients keep their locks through another one.
    let moving = client(&[&dying, second]);
    let mut held = Vec::new();
    for number in 0..LOCKS {
        held.push(within(moving.acquire(name(number)).ttl(Duration::from_secs(12)).into_future()).await.unwrap());
    }
    let others = third.client();
    let waiters: Vec<_> = held.iter().map(|lock| waits(&others, lock.name())).collect();
    for lock in &held {
        queued(&others, lock.name(), 1).await;
    }
    let killed = Instant::now();
    dying.server.process.signal(Signal::SIGKILL);
    dying.server.process.ended().expect(-9);
    for number in LOCKS..3 * LOCKS {
        acquired(&others, &name(number)).await;
    }
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}");
    for (lock, waiter) in held.into_iter().zip(waiters) {
        assert!(!waiter.is_finished(), "{lock:?} has two holders");
        assert!(!matches!(lock.status(), Status::Lost(_)), "{lock:?}");
        let token = lock.token();
        assert!(within(lock.release()).await.unwrap().was_held());
        assert!(served(waiter).await.fencing_token > token);
    }
    assert!(killed.elapsed() < PATIENCE);
    // A figure is of a moment ago, and of a partition that changes its leader neither server counts it for a moment.
    let answered = Instant::now();
    while cluster.servers.iter().map(Member::leads).sum::<usize>() != PARTITIONS {
        assert!(answered.elapsed() < FIGURES_MAX, "not all partitions are led");
    }
}

#[tokio::test]
async fn a_server_that_drains_hands_over_before_it_ends() {
    let mut cluster = Cluster::start();
    cluster.order_by_lead();
    let leaving = cluster.servers.remove(0);
    let [second, third] = [&cluster.servers[0], &cluster.servers[1]];
    let moving = client(&[&leaving, second]);
    let others = third.client();
    let (mut held, mut waiters) = (Vec::new(), Vec::new());
    for number in 0..LOCKS {
        let lock = within(moving.acquire(name(number)).ttl(TTL).into_future()).await.unwrap();
        waiters.push(waits(&others, lock.name()));
        queued(&others, lock.name(), 1).await;
        held.push(lock);
    }
    // Somebody who uses locks of all partitions without a pause notices nothing that lasts.
    let is_over = Arc::new(AtomicBool::new(false));
    let is_over_there = Arc::clone(&is_over);
    let busy = tokio::spawn(async move {
        let (mut longest, mut number) = (Duration::ZERO, LOCKS);
        loop {
            let begun = Instant::now();
            let lease = acquired(&others, &name(number)).await;
            release(&others, &lease).await;
            longest = longest.max(begun.elapsed());
            number = LOCKS + (number + 1) % LOCKS;
            if is_over_there.load(Ordering::Relaxed) {
                break longest;
            }
        }
    });
    leaving.server.process.signal(Signal::SIGTERM);
    tokio::task::spawn_blocking(|| leaving.server.drained()).await.unwrap();
    let ended = Instant::now();
    while cluster.servers.iter().map(Member::leads).sum::<usize>() < PARTITIONS {
        assert!(ended.elapsed() < UNSUSPECTED, "it left without a word");
    }
    is_over.store(true, Ordering::Relaxed);
    let longest = within(busy).await.unwrap();
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    for (lock, waiter) in held.into_iter().zip(waiters) {
        assert!(!waiter.is_finished(), "{lock:?} has two holders");
        let token = lock.token();
        assert!(within(lock.release()).await.unwrap().was_held());
        assert!(served(waiter).await.fencing_token > token);
    }
}

#[tokio::test]
async fn waiters_of_a_server_that_drains_keep_their_places_when_they_wait_elsewhere() {
    let mut cluster = Cluster::start();
    cluster.order_by_lead();
    let leaving = cluster.servers.remove(0);
    let [second, third] = [&cluster.servers[0], &cluster.servers[1]];
    let (moving, others) = (client(&[&leaving, second]), third.client());
    let (mut held, mut waiters) = (Vec::new(), Vec::new());
    for number in 0..LOCKS {
        let lock = name(number);
        held.push(acquired(&others, &lock).await);
        let first = waits(&moving, &lock);
        queued(&others, &lock, 1).await;
        let behind = waits(&others, &lock);
        queued(&others, &lock, 2).await;
        waiters.push((first, behind));
    }
    leaving.server.process.signal(Signal::SIGTERM);
    tokio::task::spawn_blocking(|| leaving.server.drained()).await.unwrap();
    tokio::time::sleep(NOT_KEPT).await;
    for (lease, (first, behind)) in held.iter().zip(waiters) {
        assert_eq!(shown(&others, &lease.lock_name).await.waiters, 2, "both wait");
        release(&others, lease).await;
        let next = served(first).await;
        assert!(!behind.is_finished(), "{} has two holders", lease.lock_name);
        release(&others, &next).await;
        assert!(served(behind).await.fencing_token > next.fencing_token);
    }
}
