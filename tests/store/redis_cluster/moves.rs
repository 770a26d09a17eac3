//! The primary of the slot changes: by a failover by hand, by its death, and by a move of the slot.

use crate::{
    Kept, PATIENCE, RedisCluster,
    cluster::{OTHER, PRIMARY, REPLICA, SLOT},
    until,
};
use fencepost::testing::node::{Arg, NodeError, Push, Pushes, Script};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

const CHANNEL: &str = "{fp}:to:one";

/// Needs a key again that it has deleted.
static HALF: Script = Script::new("#!lua\nredis.call('DEL', KEYS[1]) return redis.call('INCR', KEYS[1])");

async fn next(pushes: &mut Pushes) -> Push {
    timeout(PATIENCE, pushes.recv()).await.unwrap().unwrap()
}

/// Until the subscription is there at this member: what comes before is told as lost.
async fn resynced(kept: &Kept, cluster: &RedisCluster, member: usize, pushes: &mut Pushes) {
    assert_eq!(next(pushes).await, Push::Resync);
    until("it listens there", || {
        cluster.members[member].command(&["PUBSUB", "SHARDNUMSUB", CHANNEL]).text().ends_with('1')
    })
    .await;
    // Published by a server, and heard by one.
    assert_eq!(kept.node.connection(1).unwrap().publish(CHANNEL, b"here").await, Ok(1));
    while next(pushes).await != Push::Message(b"here".to_vec()) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_follows_a_failover_by_hand_and_a_death() {
    let mut cluster = RedisCluster::start();
    let kept = Kept::to(&cluster.url());
    kept.moves_to(&cluster.address(PRIMARY)).await;
    let mut pushes = kept.node.subscribe(CHANNEL);
    resynced(&kept, &cluster, PRIMARY, &mut pushes).await;
    assert_eq!(kept.counts().await, Ok(1));
    let before = kept.node.connection(0).unwrap().incarnation();
    cluster.fail_over_to(REPLICA);
    let took = kept.moves_to(&cluster.address(REPLICA)).await;
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_ne!(kept.node.connection(0).unwrap().incarnation(), before);
    assert_eq!(kept.counts().await, Ok(2), "what was replicated is there");
    resynced(&kept, &cluster, REPLICA, &mut pushes).await;
    until("the former primary follows", || {
        cluster.members[PRIMARY].replicates(&[("role", "slave"), ("master_link_status", "up")])
    })
    .await;
    cluster.members[REPLICA].kill();
    kept.goes_down("names").await;
    kept.moves_to(&cluster.address(PRIMARY)).await;
    assert!(kept.counts_on().await >= 2);
    resynced(&kept, &cluster, PRIMARY, &mut pushes).await;
}

/// One that stands still and goes on takes itself for the primary for a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_primary_that_comes_back_is_not_used() {
    let cluster = RedisCluster::start();
    let kept = Kept::to(&cluster.url());
    kept.moves_to(&cluster.address(PRIMARY)).await;
    kept.counts().await.unwrap();
    let ran = cluster.members[PRIMARY].calls("evalsha");
    cluster.members[PRIMARY].pause();
    kept.moves_to(&cluster.address(REPLICA)).await;
    kept.counts_on().await;
    let first = kept.node.connection(0).unwrap();
    cluster.members[PRIMARY].resume();
    until("it follows the new one", || cluster.members[PRIMARY].replicates(&[("role", "slave")])).await;
    kept.counts().await.unwrap();
    assert!(first.closed().is_none(), "{first:?}");
    // Handshakes run an unknown script there, which fails and is counted, and the commands of before.
    let more = cluster.members[PRIMARY].calls("evalsha") - ran;
    assert!(more <= 8, "{more}");
    assert_eq!(kept.addresses().unwrap(), [cluster.address(REPLICA)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_its_slot_is_moved_it_is_refused_and_then_follows() {
    let cluster = RedisCluster::start();
    // It learns of the others from a replica of another primary.
    let kept = Kept::to(&cluster.url_of(&[5]));
    kept.moves_to(&cluster.address(PRIMARY)).await;
    let mut pushes = kept.node.subscribe(CHANNEL);
    resynced(&kept, &cluster, PRIMARY, &mut pushes).await;
    assert_eq!(kept.counts().await, Ok(1));
    let first = kept.node.connection(0).unwrap();
    let half = ["{fp}half".into()];
    assert!(first.run(&HALF, &half, &[]).await.is_ok());
    cluster.begin_to_move(PRIMARY, OTHER);
    // What is there is served, and nothing new is begun.
    assert_eq!(kept.counts().await, Ok(2));
    for keys in [vec!["{fp}new"], vec!["{fp}n", "{fp}new"]] {
        let keys: Vec<Arg> = keys.into_iter().map(Arg::from).collect();
        let refused = first.run(&crate::kept::COUNT, &keys, &[]).await;
        assert!(matches!(&refused, Err(NodeError::Unavailable(why)) if why.contains("is being moved")), "{refused:?}");
    }
    // One that was begun and cannot be ended has done something.
    let unknown = first.run(&HALF, &half, &[]).await;
    assert!(matches!(&unknown, Err(NodeError::OutcomeUnknown(why)) if why.contains("half-way")), "{unknown:?}");
    assert_eq!(cluster.members[PRIMARY].command(&["CLUSTER", "COUNTKEYSINSLOT", &SLOT.to_string()]).text(), "1");
    assert!(first.closed().is_none(), "{first:?}");
    assert_eq!(first.publish(CHANNEL, b"meanwhile").await, Ok(1));
    cluster.end_to_move(PRIMARY, OTHER);
    // Whichever comes first: a refusal, or news.
    let moved = first.run(&crate::kept::COUNT, &["{fp}n".into()], &[]).await;
    assert!(matches!(&moved, Err(NodeError::Unavailable(_))), "{moved:?}");
    assert!(first.closed().is_some());
    let took = kept.moves_to(&cluster.address(OTHER)).await;
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(kept.counts().await, Ok(3), "its keys came along");
    assert_eq!(next(&mut pushes).await, Push::Message(b"meanwhile".to_vec()));
    resynced(&kept, &cluster, OTHER, &mut pushes).await;
    assert!(!Arc::ptr_eq(&first, &kept.node.connection(0).unwrap()));
}

/// Two of three primaries do not answer, and the third does not know that yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_of_the_primaries_connections_are_left() {
    let cluster = RedisCluster::start_patient();
    let kept = Kept::to(&cluster.url());
    kept.moves_to(&cluster.address(PRIMARY)).await;
    kept.counts().await.unwrap();
    cluster.members[0].pause();
    cluster.members[2].pause();
    let says = format!("which is no majority to name the primary of slot {SLOT} ({{fp}})");
    let took = kept.goes_down(&format!("1 of 3 primaries of the Redis Cluster answer, {says}")).await;
    assert!(took < Duration::from_millis(5_500), "{took:?}");
    assert!(cluster.members[PRIMARY].command(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok"));
    cluster.members[0].resume();
    kept.moves_to(&cluster.address(PRIMARY)).await;
    kept.counts().await.unwrap();
    cluster.members[2].resume();
}
