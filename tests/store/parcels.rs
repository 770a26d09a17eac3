//! Parcels between servers, through nodes in this process and through Redis.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../support/redis.rs"]
mod redis;
#[path = "../support/twins.rs"]
mod twins;

use fencepost::testing::{
    node::{CONNECTIONS_PER_NODE, Push, Pushes, RedisUrl},
    store::quorum::{
        nodes::{
            client::{NodeClient, PARCEL_BYTES_MAX},
            connections::RedisNodes,
        },
        paxos::{
            ballot::ServerId,
            node::{ClusterId, Mark, NodeAnswer, NodeRequest},
        },
    },
};
use futures_util::future::join_all;
use redis::Redis;
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use twins::Twins;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);
const ONE: ServerId = ServerId([1; 12]);
const OTHER: ServerId = ServerId([0xfe; 12]);

/// The connections of a server. They end when it is dropped.
struct Server {
    nodes: Arc<RedisNodes>,
    running: JoinHandle<()>,
}

impl Server {
    async fn of(redis: &[Redis]) -> Self {
        let urls: Vec<_> = redis.iter().map(|redis| RedisUrl::parse(&redis.url()).unwrap()).collect();
        let nodes = Arc::new(RedisNodes::new(&urls));
        let runs = Arc::clone(&nodes);
        let running = tokio::spawn(async move { runs.run().await });
        for node in 0..redis.len() {
            timeout(PATIENCE, nodes.up(node)).await.unwrap();
        }
        Self { nodes, running }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn next(pushes: &mut Pushes) -> Option<Push> {
    timeout(PATIENCE, pushes.recv()).await.unwrap()
}

fn parcel(text: &[u8]) -> Option<Push> {
    Some(Push::Message(text.to_vec()))
}

async fn until_nobody_listens(from: &impl NodeClient, to: ServerId) {
    let ended = async {
        while from.publish(0, to, Vec::new()).await.unwrap() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, ended).await.unwrap();
}

/// `one` and `other` are the node clients of these servers, and `from` is that of a third one. They have two nodes.
async fn parcels_reach_whom_they_are_for(from: &impl NodeClient, one: &impl NodeClient, other: &impl NodeClient) {
    assert!(!from.publish(0, ONE, b"early".to_vec()).await.unwrap(), "nobody listens");
    let (mut to_one, mut to_other) = (one.listen(0, ONE), other.listen(0, OTHER));
    assert_eq!(next(&mut to_one).await, Some(Push::Resync));
    assert_eq!(next(&mut to_other).await, Some(Push::Resync));
    for number in 0..50 {
        assert!(from.publish(0, ONE, vec![number]).await.unwrap());
    }
    assert!(!from.publish(1, ONE, b"through the other node".to_vec()).await.unwrap(), "nobody listens there");
    assert!(from.publish(0, OTHER, b"for the other".to_vec()).await.unwrap());
    for number in 0..50 {
        assert_eq!(next(&mut to_one).await, parcel(&[number]));
    }
    assert_eq!(next(&mut to_other).await, parcel(b"for the other"));

    let mut again = one.listen(0, ONE);
    assert_eq!(next(&mut again).await, Some(Push::Resync));
    assert!(from.publish(0, ONE, b"again".to_vec()).await.unwrap());
    assert_eq!(next(&mut again).await, parcel(b"again"));
    while next(&mut to_one).await.is_some() {}
    drop(again);
    until_nobody_listens(from, ONE).await;
    assert!(from.publish(0, OTHER, b"last".to_vec()).await.unwrap());
    assert_eq!(next(&mut to_other).await, parcel(b"last"));
}

#[tokio::test]
async fn through_twins_parcels_reach_whom_they_are_for() {
    let twins = Twins::<2>::new();
    parcels_reach_whom_they_are_for(&twins, &twins, &twins).await;
}

#[tokio::test]
async fn through_redis_parcels_reach_whom_they_are_for() {
    let redis = [Redis::start(&[]), Redis::start(&[])];
    let (from, one, other) = (Server::of(&redis).await, Server::of(&redis).await, Server::of(&redis).await);
    parcels_reach_whom_they_are_for(&from.nodes, &one.nodes, &other.nodes).await;
}

#[tokio::test]
async fn a_listener_is_told_of_a_restart_and_gets_parcels_again() {
    let mut redis = [Redis::start(&[])];
    let (from, one) = (Server::of(&redis).await, Server::of(&redis).await);
    let mut to_one = one.nodes.listen(0, ONE);
    assert_eq!(next(&mut to_one).await, Some(Push::Resync));
    redis[0].kill();
    assert_eq!(next(&mut to_one).await, Some(Push::Resync), "at once");
    assert_ne!(from.nodes.publish(0, ONE, b"lost".to_vec()).await, Ok(true));
    redis[0].restart(false);
    let heard = async {
        while from.nodes.publish(0, ONE, b"again".to_vec()).await != Ok(true) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, heard).await.unwrap();
    assert_eq!(next(&mut to_one).await, Some(Push::Resync), "before the first parcel");
    assert_eq!(next(&mut to_one).await, parcel(b"again"));
}

#[tokio::test]
async fn a_parcel_of_the_largest_size_arrives_and_a_larger_one_is_refused() {
    let redis = [Redis::start(&[])];
    let (from, one) = (Server::of(&redis).await, Server::of(&redis).await);
    let mut to_one = one.nodes.listen(0, ONE);
    assert_eq!(next(&mut to_one).await, Some(Push::Resync));
    let large: Vec<u8> = (0..=u8::MAX).cycle().take(PARCEL_BYTES_MAX).collect();
    let too_large = [&large[..], b"x"].concat();
    let refused = from.nodes.publish(0, ONE, too_large).await.unwrap_err();
    assert!(refused.0.contains("too large"), "{refused}");
    assert!(from.nodes.publish(0, ONE, large.clone()).await.unwrap());
    assert!(next(&mut to_one).await == Some(Push::Message(large)), "as it was sent, and before it nothing was");
}

#[tokio::test]
async fn parcels_that_are_ready_together_go_in_one_write() {
    const PARCELS: usize = 100;
    let redis = [Redis::start(&[])];
    let from = Server::of(&redis).await;
    let _ = from.nodes.publish(0, ONE, Vec::new()).await.unwrap();
    let reads = || redis[0].info("stats", "total_reads_processed").parse::<usize>().unwrap();
    let (before, published) = (reads(), redis[0].calls("publish"));
    join_all((0..PARCELS).map(|_| from.nodes.publish(0, ONE, b"small".to_vec()))).await;
    // Those of this test's own questions, and checks of connections.
    let more = reads() - before;
    assert!(more < PARCELS / 4, "{more} reads");
    // Each went once. A connection that is new meanwhile is checked by a message of its own.
    let (more, checks) = (redis[0].calls("publish") - published, CONNECTIONS_PER_NODE as u64);
    assert!((PARCELS as u64..=PARCELS as u64 + checks).contains(&more), "{more} messages");
}

#[tokio::test]
async fn parcels_and_requests_have_a_connection_each() {
    let redis = [Redis::start(&[])];
    let from = Server::of(&redis).await;
    let mark =
        Mark { cluster: ClusterId(1), partitions: 1, list: 1, members: Arc::from([Arc::from("here")]), rebuild: None };
    // True unless the requests came after the parcel on the same connection.
    let are_apart = async || {
        assert!(!from.nodes.publish(0, ONE, Vec::new()).await.unwrap());
        assert_eq!(from.nodes.send(0, vec![NodeRequest::Mark(mark.clone())]).await.unwrap(), [Ok(NodeAnswer::Marked)]);
        let last_commands = redis[0].command(&["CLIENT", "LIST"]).text();
        last_commands.contains(" cmd=publish ")
    };
    // At first there may be one connection only.
    let connected = async {
        while !are_apart().await {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, connected).await.expect("apart, once there are two");
    for _ in 0..5 {
        assert!(are_apart().await);
    }
}
