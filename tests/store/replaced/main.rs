//! A node of a cluster is replaced by another one, while servers run; and a cluster is rebuilt.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../../support/asks.rs"]
mod asks;
mod cluster;
#[path = "../../support/notices.rs"]
mod notices;
mod rebuilt;
#[path = "../../support/redis.rs"]
mod redis;

use asks::{Asks, acquire, acquire_call, new_request};
use cluster::{Cluster, LOCKS, Load, PATIENCE, TTL, addresses, assert_held, lock, persist};
use fencepost::testing::{
    clock::ProcessClock,
    domain::{
        limits::Limits,
        outcome::{Grant, ReleaseOutcome},
    },
    locks::{AcquireAnswer, LocksError},
    store::quorum::{
        QuorumStore,
        config::replace_node::{Plan, ReplaceError, Replacement},
        nodes::addresses::Connect,
        paxos::node::{ClusterId, Mark},
    },
};
use notices::NoNotices;
use redis::{Answer, Redis};
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_replaced_under_load_and_nothing_is_lost() {
    for servers in [1, 2] {
        let mut cluster = Cluster::start().await;
        let mut running = Vec::new();
        for _ in 0..servers {
            running.push(cluster.server(&[0, 1, 2]).await);
        }
        let held = running[0].hold(0..LOCKS).await;
        let waits = |number: usize| {
            let (locks, name) = (Arc::clone(&running[number % servers].locks), held[number].0.clone());
            tokio::spawn(async move { locks.acquire(&name, acquire_call(new_request(), 1, TTL, PATIENCE)).await })
        };
        let waiting: Vec<_> = (0..4).map(waits).collect();
        let load = Load::on(&running);
        load.goes_on().await;
        let to = cluster.replace_wholly(&[0, 1, 2], (2, 3)).await;
        assert_eq!((to.list, &*to.members), (2, &[cluster.name(0), cluster.name(1), cluster.name(3)][..]));
        for server in &running {
            server.until_list(2).await;
        }
        load.goes_on().await;
        let longest = load.end().await;
        assert!(longest < Duration::from_secs(3), "{longest:?}: no longer than a server's death");
        // The old node is not needed, and one of the others is not needed beside the new one.
        cluster.redis[2].kill();
        cluster.redis[0].kill();
        for server in &running {
            assert_held(server, &held).await;
        }
        for ((name, _, grant), waiter) in held.iter().zip(waiting) {
            let released = persist(|| running[0].store.release(name, grant.lease_id)).await;
            assert_eq!(released, ReleaseOutcome::Released);
            assert_served(waiter, grant).await;
        }
        // A server that starts later finds what the new node has.
        drop(running);
        let later = cluster.server(&[0, 1, 3]).await;
        assert_held(&later, &held[4..]).await;
    }
}

async fn assert_served(waiter: JoinHandle<Result<AcquireAnswer, LocksError>>, before: &Grant) {
    match timeout(PATIENCE, waiter).await.expect("the waiter is served").unwrap() {
        Ok(AcquireAnswer::Acquired(acquired)) => assert!(acquired.grant.token > before.token),
        other => panic!("not granted: {other:?}"),
    }
}

#[tokio::test]
async fn with_the_old_list_there_is_no_majority() {
    let cluster = Cluster::start().await;
    let server = cluster.server(&[0, 1, 2]).await;
    let held = server.hold(0..4).await;
    cluster.replace_wholly(&[0, 1, 2], (2, 3)).await;
    server.until_list(2).await;
    drop(server);
    // It goes by the old list, whatever the nodes say.
    let (addresses, clock) = (addresses(&cluster.redis[..3]), Arc::new(ProcessClock::start()));
    let (nodes, run) = addresses.connect(&addresses.members()).unwrap();
    let stubborn = QuorumStore::new(nodes, cluster.mark.clone(), clock, &Limits::default(), Arc::new(NoNotices));
    let tries = async {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3) {
            let refused = stubborn.acquire(&lock(99), acquire(new_request(), TTL, false)).await;
            assert!(refused.is_err(), "{refused:?}");
            assert_eq!(stubborn.leads(), 0);
        }
    };
    tokio::select! {
        () = tries => {}
        () = stubborn.run() => unreachable!("it never ends"),
        () = run => unreachable!("it never ends"),
    }
    let server = cluster.server(&[0, 1, 2]).await;
    assert_eq!(server.store.list_number(), Some(2), "it finds the new node by the others");
    assert_held(&server, &held).await;
}

#[tokio::test]
async fn a_replacement_that_was_broken_off_is_repeated() {
    let mut cluster = Cluster::start().await;
    let server = cluster.server(&[0, 1, 2]).await;
    let held = server.hold(0..LOCKS).await;
    let replacement = cluster.replacement(2, 3);
    let Plan::Begin { from, to } = replacement.plan(&cluster.sight(&[0, 1, 2]).await, &cluster.mark.members).unwrap()
    else {
        panic!("nothing was decided");
    };
    assert_eq!((&from, to.list), (&cluster.mark, 2));
    cluster.give(0, &to).await;
    // The two others go on with the old list.
    assert_held(&server, &held).await;
    assert_eq!(server.store.list_number(), Some(1));
    let sight = cluster.sight(&[0, 1, 2]).await;
    assert_eq!(Replacement::begun(&sight, Some(&from)), Some(replacement.clone()));
    let other = cluster.replace(&[0, 1, 2], &cluster.replacement(2, 4)).await;
    assert!(matches!(other, Err(ReplaceError::Underway { list: 2, .. })), "{other:?}");
    // Now no list has a majority.
    cluster.redis[2].kill();
    let refused = server.store.view(&held[0].0).await;
    assert!(refused.is_err(), "{refused:?}");
    let sight = cluster.sight(&[0, 1, 2]).await;
    assert_eq!(Replacement::begun(&sight, None), Some(replacement));
    let other = cluster.replace(&[0, 1, 2], &cluster.replacement(2, 4)).await;
    assert!(other.is_err(), "{other:?}");
    assert_eq!(cluster.replace_wholly(&[0, 1, 2], (2, 3)).await, to);
    server.until_list(2).await;
    assert_held(&server, &held).await;
    assert_eq!(cluster.replace_wholly(&[0, 1, 3], (2, 3)).await, to, "it may be repeated when it is done");
}

#[tokio::test]
async fn a_node_that_is_in_use_replaces_none() {
    let cluster = Cluster::start().await;
    let server = cluster.server(&[0, 1, 2]).await;
    let held = server.hold(0..4).await;
    let refused = async |old, new: Arc<str>| {
        let replacement = Replacement { old: cluster.name(old), new };
        let refused = cluster.replace(&[0, 1, 2], &replacement).await.unwrap_err();
        assert_eq!(cluster.sight(&[0, 1, 2]).await.agreed(&cluster.mark.members), Ok(cluster.mark.clone()));
        refused
    };
    cluster.give(3, &Mark { cluster: ClusterId(8), ..cluster.mark.clone() }).await;
    let of_another = refused(2, cluster.name(3)).await;
    assert!(matches!(of_another, ReplaceError::InUse { .. }), "{of_another}");
    let by_another_name = refused(2, format!("localhost:{}", cluster.redis[0].port).into()).await;
    assert!(matches!(by_another_name, ReplaceError::InUse { .. }), "{by_another_name}");
    let by_a_member = refused(2, cluster.name(0)).await;
    assert!(matches!(by_a_member, ReplaceError::Members(_)), "{by_a_member}");
    let of_a_stranger = refused(4, cluster.name(3)).await;
    assert!(matches!(of_a_stranger, ReplaceError::Members(_)), "{of_a_stranger}");
    let by_none = refused(2, format!("127.0.0.1:{}", Redis::free_port()).into()).await;
    assert!(matches!(by_none, ReplaceError::Lost { .. }), "{by_none}");
    cluster.replace_wholly(&[0, 1, 2], (2, 4)).await;
    // A node that was replaced, and only seems to be empty.
    assert_eq!(cluster.redis[2].command(&["DEL", "{fp}:node"]), Answer::Int(1));
    let kept = cluster.replace(&[0, 1, 4], &cluster.replacement(4, 2)).await.unwrap_err();
    assert!(kept.to_string().contains("it has locks"), "{kept}");
    cluster.redis[2].command(&["FLUSHALL"]);
    cluster.replace_wholly(&[0, 1, 4], (4, 2)).await;
    server.until_list(3).await;
    assert_held(&server, &held).await;
}

#[tokio::test]
async fn one_is_replaced_after_the_other() {
    let mut cluster = Cluster::start().await;
    let server = cluster.server(&[0, 1, 2]).await;
    let held = server.hold(0..LOCKS).await;
    cluster.replace_wholly(&[0, 1, 2], (2, 3)).await;
    server.until_list(2).await;
    drop(server);
    // Nobody brings the first new one up to date again.
    cluster.redis[3].restart(false);
    cluster
        .give(3, &Mark { list: 2, members: [0, 1, 3].map(|node| cluster.name(node)).into(), ..cluster.mark.clone() })
        .await;
    let early = cluster.replace(&[0, 1, 3], &cluster.replacement(1, 4)).await;
    assert!(matches!(&early, Err(ReplaceError::Lacks { member, .. }) if *member == cluster.name(3)), "{early:?}");
    let server = cluster.server(&[0, 1, 2]).await;
    let has_all = async {
        while matches!(cluster.replace(&[0, 1, 3], &cluster.replacement(1, 4)).await, Err(ReplaceError::Lacks { .. })) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, has_all).await.expect("all have all");
    assert_eq!(cluster.replace_wholly(&[0, 1, 3], (1, 4)).await.list, 3);
    server.until_list(3).await;
    assert_held(&server, &held).await;
    drop(server);
    // Of the first three one is left.
    cluster.redis[1].kill();
    cluster.redis[2].kill();
    let server = cluster.server(&[0, 1, 2]).await;
    assert_eq!(server.store.list_number(), Some(3));
    assert_held(&server, &held).await;
}
