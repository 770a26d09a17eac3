//! The listener: hints arrive, and lost ones are told.

use super::{Kept, Redis, eventually};
use fencepost::testing::node::{PUSHES_BACKLOG_MAX, Push, Pushes};
use std::time::Duration;
use tokio::time::timeout;

async fn next(pushes: &mut Pushes) -> Push {
    timeout(Duration::from_secs(10), pushes.recv()).await.unwrap().unwrap()
}

fn message(text: &str) -> Push {
    Push::Message(text.as_bytes().to_vec())
}

/// Until the listener listens again: what comes before is told as lost, once or more.
async fn resynced(redis: &Redis, pushes: &mut Pushes) {
    assert_eq!(next(pushes).await, Push::Resync);
    eventually("it listens", || redis.command(&["PUBLISH", "c", "here"]).text() == "1").await;
    while next(pushes).await != message("here") {}
}

#[tokio::test]
async fn messages_arrive_and_a_killed_connection_is_told() {
    let redis = Redis::start(&[]);
    let kept = Kept::to(&redis).await;
    let mut pushes = kept.node.subscribe("c");
    assert_eq!(next(&mut pushes).await, Push::Resync);
    redis.command(&["PUBLISH", "d", "not ours"]);
    redis.command(&["PUBLISH", "c", "one"]);
    redis.command(&["PUBLISH", "c", "two"]);
    assert_eq!(next(&mut pushes).await, message("one"));
    assert_eq!(next(&mut pushes).await, message("two"));

    assert_eq!(redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).text(), "1");
    resynced(&redis, &mut pushes).await;
    assert!(*kept.node.up().borrow(), "the other connections are untouched");
}

#[tokio::test]
async fn it_listens_before_redis_is_there_and_after_it_was_lost() {
    let port = Redis::free_port();
    let kept = Kept::to_url(&format!("redis://127.0.0.1:{port}"));
    let mut pushes = kept.node.subscribe("c");
    let mut redis = Redis::start_at(port, &[]);
    resynced(&redis, &mut pushes).await;
    redis.kill();
    assert_eq!(next(&mut pushes).await, Push::Resync, "at once, not only when it is back");
    redis.restart(false);
    resynced(&redis, &mut pushes).await;
}

#[tokio::test]
async fn a_full_backlog_is_told_and_a_second_listener_ends_the_first() {
    let redis = Redis::start(&[]);
    let kept = Kept::to(&redis).await;
    let mut pushes = kept.node.subscribe("c");
    assert_eq!(next(&mut pushes).await, Push::Resync);
    let flood = "for i = 1, ARGV[1] do redis.call('PUBLISH', 'c', i) end return 'done'";
    redis.command(&["EVAL", flood, "0", &(PUSHES_BACKLOG_MAX + 100).to_string()]);
    eventually("the flood has arrived", || pushes_lost(&redis)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(next(&mut pushes).await, Push::Resync);
    assert_eq!(next(&mut pushes).await, message("1"));

    let mut second = kept.node.subscribe("e");
    assert_eq!(next(&mut second).await, Push::Resync);
    redis.command(&["PUBLISH", "e", "for the second"]);
    assert_eq!(next(&mut second).await, message("for the second"));
    while timeout(Duration::from_secs(10), pushes.recv()).await.unwrap().is_some() {}
    drop(second);
    eventually("nobody listens", || redis.command(&["PUBLISH", "e", "x"]).text() == "0").await;
}

/// Redis has sent all that it had for its listeners.
fn pushes_lost(redis: &Redis) -> bool {
    let clients = redis.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).text();
    clients.contains(" oll=0 ") && clients.contains(" obl=0 ")
}
