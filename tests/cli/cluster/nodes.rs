//! A node that dies, and comes back without its memory.

use crate::{
    binary::await_that,
    several::{Cluster, LOCKS, Member, acquired, name, release, shown},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

#[tokio::test]
async fn a_node_that_dies_and_comes_back_empty_disturbs_no_client() {
    let mut cluster = Cluster::start();
    let clients: Vec<_> = cluster.servers.iter().map(Member::client).collect();
    let mut held = Vec::new();
    for number in 0..LOCKS {
        held.push(acquired(&clients[number % 3], &name(number)).await);
    }
    let stop = Arc::new(AtomicBool::new(false));
    // Clients that go on all the time, each with its own locks: a call that fails ends the test.
    let busy: Vec<_> = (0..3)
        .map(|at: usize| {
            let (client, stop) = (clients[at].clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let (mut newest, mut longest) = ([0; 8], Duration::ZERO);
                while !stop.load(Ordering::Relaxed) {
                    for (number, newest) in newest.iter_mut().enumerate() {
                        let begun = Instant::now();
                        let lease = acquired(&client, &format!("busy/{at}/{number}")).await;
                        assert!(lease.fencing_token > *newest, "{lease:?} after {newest}");
                        *newest = lease.fencing_token;
                        release(&client, &lease).await;
                        longest = longest.max(begun.elapsed());
                    }
                }
                longest
            })
        })
        .collect();
    // Status and processes are waited for on a thread of their own, so that the clients go on.
    let cluster = tokio::task::spawn_blocking(move || {
        for away in [0, 1, 2] {
            cluster.nodes[away].kill();
            let (code, shown) = cluster.status();
            assert_eq!(code, 0, "two nodes are a majority: {shown}");
            cluster.nodes[away].restart(false);
            // Before the next one dies, this one has to have what the other two have.
            await_that("the node is up to date", || {
                cluster.status().1.matches("  has the locks of all partitions").count() == 3
            });
        }
        cluster
    })
    .await
    .unwrap();
    stop.store(true, Ordering::Relaxed);
    for busy in busy {
        let longest = busy.await.unwrap();
        assert!(longest < Duration::from_secs(5), "{longest:?}");
    }
    // No node is left that was there when these were granted.
    for lease in held {
        let holder = shown(&clients[0], &lease.lock_name).await.holders.pop();
        assert_eq!(holder.map(|it| it.fencing_token), Some(lease.fencing_token));
        release(&clients[1], &lease).await;
    }
    drop(cluster);
}
