//! Two servers on one node, which loses its memory.

use crate::{
    binary::await_that,
    redis::Redis,
    several::{LOCKS, Member, PARTITIONS, acquired, acquired_for, name, queued, release, served, waits},
};
use fencepost_client::{
    Client,
    raw::v1::{GetRequest, Lease},
};
use std::time::Duration;
use tokio::time::Instant;

/// Until a server makes the store, or goes on from what Redis kept, when nobody has anything in memory: 3 s, and room
/// for a busy machine.
const SETTLED_WITHIN: Duration = Duration::from_secs(20);

/// For so long Redis keeps what it has, until it is emptied again.
const KEEPS: Duration = Duration::from_millis(500);

fn start(store: &str) -> [Member; 2] {
    let servers = [(); 2].map(|()| Member::start(store));
    await_that("a leader for each partition", || servers.iter().map(Member::leads).sum::<usize>() == PARTITIONS);
    servers
}

/// The lease of a lock, as its server shows it when there is an answer again.
async fn token(client: &Client, lock: &str) -> Option<u64> {
    let begun = Instant::now();
    loop {
        match client.calls().get(GetRequest { lock_name: lock.to_owned() }).await {
            Ok(answer) => return answer.lock.unwrap_or_default().holders.pop().map(|holder| holder.fencing_token),
            Err(why) => assert!(begun.elapsed() < SETTLED_WITHIN, "{why}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn what_redis_forgets_is_written_to_it_again_and_tokens_rise_when_all_is_forgotten() {
    let mut redis = Redis::start(&[]);
    let store = redis.url();
    // The first start: one of the two makes the store.
    let servers = start(&store);
    let clients = servers.each_ref().map(Member::client);
    let mut held: Vec<Lease> = Vec::new();
    for number in 0..LOCKS {
        held.push(acquired(&clients[number % 2], &name(number)).await);
    }
    let waiters: Vec<_> = (0..LOCKS).map(|number| waits(&clients[(number + 1) % 2], &name(number))).collect();
    for number in 0..LOCKS {
        queued(&clients[0], &name(number), 1).await;
    }
    redis.command(&["FLUSHALL"]);
    for lease in &held {
        assert_eq!(token(&clients[0], &lease.lock_name).await, Some(lease.fencing_token));
    }
    redis.kill();
    redis.restart(false);
    for lease in &held {
        assert_eq!(token(&clients[1], &lease.lock_name).await, Some(lease.fencing_token));
    }
    let mut newest = Vec::new();
    for (lease, waiter) in held.iter().zip(waiters) {
        release(&clients[0], lease).await;
        let next = served(waiter).await;
        assert!(next.fencing_token > lease.fencing_token);
        newest.push(next);
    }
    drop(clients);
    drop(servers);
    redis.kill();
    redis.restart(false);
    let servers = start(&store);
    let client = servers[1].client();
    for lease in newest {
        assert_eq!(token(&client, &lease.lock_name).await, None, "nobody knows of it any more");
        assert!(acquired(&client, &lease.lock_name).await.fencing_token > lease.fencing_token);
    }
}

#[tokio::test]
async fn a_redis_that_is_emptied_again_and_again_keeps_no_lock_of_a_dead_holder() {
    let redis = Redis::start(&[]);
    let servers = start(&redis.url());
    let client = servers[0].client();
    let ttl = Duration::from_secs(4);
    let held = acquired_for(&client, "orders/1", ttl).await;
    let waiter = waits(&client, "orders/1");
    queued(&client, "orders/1", 1).await;
    let begun = Instant::now();
    while !waiter.is_finished() {
        assert!(begun.elapsed() < SETTLED_WITHIN, "the TTL of {ttl:?} begins anew");
        redis.command(&["FLUSHALL"]);
        token(&client, "orders/1").await;
        tokio::time::sleep(KEEPS).await;
    }
    assert!(served(waiter).await.fencing_token > held.fencing_token);
}
