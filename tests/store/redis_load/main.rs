//! Redis fails in one way after the other under two servers, while clients of both take, renew and give back a few
//! locks. Whatever it forgets, the servers that live have: nothing that was granted is forgotten.
#![allow(clippy::unwrap_used)] // also in what the tests share

#[path = "../../support/binary.rs"]
mod binary;
mod record;
#[path = "../../support/redis.rs"]
mod redis_server;
#[path = "../../support/server.rs"]
mod support;
mod trial;
mod work;

use redis_server::Redis;
use std::time::Duration;
use tokio::time::sleep;
use trial::Trial;

const AOF: &[&str] = &["--appendonly", "yes"];

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_killed_and_comes_back_with_its_data() {
    let mut trial = Trial::begin(AOF).await;
    for _ in 0..2 {
        trial.redis.kill();
        sleep(Duration::from_millis(500)).await;
        trial.redis.restart(true);
        trial.goes_on().await;
    }
    trial.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_killed_and_comes_back_empty() {
    let mut trial = Trial::begin(&[]).await;
    trial.redis.kill();
    trial.redis.restart(false);
    trial.goes_on().await;
    trial.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_flushed() {
    let trial = Trial::begin(&[]).await;
    trial.redis.command(&["FLUSHALL"]);
    trial.goes_on().await;
    trial.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_stands_still() {
    let trial = Trial::begin(&[]).await;
    for millis in [1_000, 2_000] {
        trial.redis.pause();
        sleep(Duration::from_millis(millis)).await;
        trial.redis.resume();
        trial.goes_on().await;
    }
    trial.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_read_only_for_a_while() {
    let trial = Trial::begin(&[]).await;
    let nowhere = Redis::free_port().to_string();
    trial.redis.command(&["REPLICAOF", "127.0.0.1", &nowhere]);
    sleep(Duration::from_secs(2)).await;
    trial.redis.command(&["REPLICAOF", "NO", "ONE"]);
    trial.goes_on().await;
    trial.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_whose_memory_is_full_for_a_while() {
    let trial = Trial::begin(&["--maxmemory-policy", "noeviction"]).await;
    let used: u64 = trial.redis.info("memory", "used_memory").parse().unwrap();
    trial.redis.command(&["CONFIG", "SET", "maxmemory", &(used + (4 << 20)).to_string()]);
    trial.redis.command(&["SETRANGE", "filler", &(8 << 20).to_string(), "x"]);
    let before = trial.refused();
    sleep(Duration::from_secs(2)).await;
    assert!(trial.refused() > before, "it was full");
    trial.redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    trial.goes_on().await;
    trial.redis.command(&["DEL", "filler"]);
    trial.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_throws_scripts_and_connections_away() {
    let trial = Trial::begin(&[]).await;
    for round in 0..12 {
        trial.redis.command(&["SCRIPT", "FLUSH"]);
        trial.redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        if round % 3 == 2 {
            trial.redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        }
        sleep(Duration::from_millis(250)).await;
    }
    trial.goes_on().await;
    trial.end().await;
}
