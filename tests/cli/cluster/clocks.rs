//! All is lost, and clocks differ: tokens rise all the same.

use crate::{
    binary::{Process, await_that, fencepost},
    clock::Clock,
    redis::Redis,
    several::{Member, PARTITIONS, acquired, name},
};
use std::{path::Path, process::Command};

/// How far the clock that is wrong is ahead, in seconds. Longer than a first start takes and all that the test does.
const AHEAD: i64 = 15;

/// The token of a lock that a server grants, which is the only one on its store, and ends then.
async fn token_of_a_new_server(store: &str) -> u64 {
    let server = Member::start(store);
    await_that("a leader for each partition", || server.leads() == PARTITIONS);
    acquired(&server.client(), &name(1)).await.fencing_token
}

#[tokio::test]
async fn tokens_rise_when_redis_and_all_servers_forget_and_the_clock_of_redis_was_ahead() {
    let clock = Clock::new();
    clock.set(AHEAD);
    let mut redis = Redis::start_in(&[], &[], &clock.env());
    let before = token_of_a_new_server(&redis.url()).await;
    redis.kill();
    clock.set(0);
    redis.restart(false);
    let after = token_of_a_new_server(&redis.url()).await;
    assert!(after > before, "{after} after {before}: {} s lower", (before - after) / 1_000_000);
}

/// Makes a store on a machine whose clock this is.
fn create(store: &str, clock: &Clock) -> Process {
    let mut create: Command = fencepost(&["quorum", "create", "--store", store]);
    Process::start(create.envs(clock.env().iter().map(|(name, value)| (*name, value.as_path() as &Path))))
}

#[tokio::test]
async fn tokens_rise_when_a_store_is_made_anew_and_the_clock_that_made_the_first_was_ahead() {
    let clock = Clock::new();
    clock.set(AHEAD);
    let mut redis = Redis::start(&[]);
    let made = create(&redis.url(), &clock).ended().expect(0);
    let before = token_of_a_new_server(&redis.url()).await;
    clock.set(0);
    redis.restart(false);
    create(&redis.url(), &clock).ended().expect(0);
    let after = token_of_a_new_server(&redis.url()).await;
    assert!(after > before, "{after} after {before}: {} s lower", (before - after) / 1_000_000);
    made.says("clocks");
}
