//! The server on Redis, end to end: real Redis processes, real sockets, several servers on one Redis.
#![allow(clippy::unwrap_used, reason = "test code")]

mod acl;
#[path = "../../support/asks.rs"]
mod asks;
mod classic;
#[path = "../../support/clock.rs"]
mod clock;
mod clocks;
mod damage;
mod doctor;
mod faults;
mod hand_over;
mod hints;
mod listing;
#[path = "../redis_node/log.rs"]
mod log;
#[path = "../../support/notices.rs"]
mod notices;
mod overload;
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

use fencepost::{config::StoreUrl, domain::limits::Limits, node::RedisUrl, store::redis::RedisStore};
use notices::RecordingNotices;
use redis_server::Redis;
use std::sync::Arc;
use support::{Server, until, within};
use tokio::task::JoinHandle;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

/// A server on this Redis that is serving.
async fn server_on(redis: &Redis) -> Server {
    let server = start_on(redis).await;
    serving(&server, true).await;
    server
}

/// A server on this Redis, which may be down.
async fn start_on(redis: &Redis) -> Server {
    start_on_url(redis.url()).await
}

async fn start_on_url(url: String) -> Server {
    Server::start_with(|config| config.store = StoreUrl::Redis(url)).await
}

/// Waits until the health service reports whether the server is serving.
async fn serving(server: &Server, expected: bool) {
    let health = HealthClient::new(server.channel());
    until(|| {
        let mut health = health.clone();
        async move {
            let status =
                health.check(HealthCheckRequest { service: String::new() }).await.unwrap().into_inner().status();
            (status == ServingStatus::Serving) == expected
        }
    })
    .await;
}

/// A store, which its maintenance task keeps up until it is aborted.
async fn store_on(url: &str, notices: Arc<RecordingNotices>) -> (Arc<RedisStore>, JoinHandle<()>) {
    let store = Arc::new(RedisStore::new(&RedisUrl::parse(url).unwrap(), &Limits::default(), notices));
    let maintained = store.clone();
    let maintenance = tokio::spawn(async move { maintained.maintain().await });
    within(store.up().wait_for(|up| *up)).await.unwrap();
    (store, maintenance)
}
