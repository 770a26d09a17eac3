//! The server on Redis, end to end: real Redis processes, real sockets, several servers on one Redis.
#![allow(clippy::unwrap_used, reason = "test code")]

mod acl;
#[path = "../../support/clock.rs"]
mod clock;
mod clocks;
mod damage;
mod disk;
mod doctor;
mod faults;
mod layout;
mod listing;
#[path = "../../support/proxy.rs"]
mod proxy;
#[path = "../../support/redis.rs"]
mod redis_server;
mod renewals;
mod replicas;
#[path = "../../support/session_stream.rs"]
mod session_stream;
mod sessions;
mod stalled;
#[path = "../../support/stream.rs"]
mod stream;
#[path = "../../support/server.rs"]
mod support;
mod tokens;
mod waiters;
mod watching;

use fencepost::testing::config::StoreUrl;
use redis_server::Redis;
use std::{process::Command, time::Duration};
use support::{Lock, Server, serving};

/// A server on this Redis that is serving.
async fn server_on(redis: &Redis) -> Server {
    if redis.command(&["DBSIZE"]).text() == "0" {
        make_store(redis);
    }
    let server = start_on(redis).await;
    serving(&server, true).await;
    server
}

/// Makes the store of a new Redis at once. A server would wait for 3 s, in each of these tests.
fn make_store(redis: &Redis) {
    let url = redis.url();
    let made =
        Command::new(env!("CARGO_BIN_EXE_fencepost")).args(["quorum", "create", "--store", &url]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
}

/// A server on this Redis, which may be down.
async fn start_on(redis: &Redis) -> Server {
    start_on_url(redis.url()).await
}

async fn start_on_url(url: String) -> Server {
    Server::start_with(|config| config.store = StoreUrl::Redis(vec![url])).await
}

/// A lock that this server leads, once all have their shares: it asks no other about it, so it sends no message.
async fn led_by(server: &Server, redis: &Redis) -> String {
    // A server that was started gets its share after 2 s.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut number = 0;
    loop {
        let name = format!("led/{number}");
        let before = redis.calls("publish");
        server.client().lock_info(&name).await;
        if redis.calls("publish") == before {
            return name;
        }
        number += 1;
    }
}
