//! Acquires come ten times as fast as Redis takes grants, beside leases of 3 s that another client keeps. Not one of
//! these may end.
//!
//! A proxy bounds what Redis takes in a second, so that the overload is the same on each machine. `make overload` goes
//! on for ten minutes, with 10,000 leases. `lanes` has the same in virtual time.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../../support/binary.rs"]
mod binary;
mod flood;
mod leases;
#[path = "../../support/proxy.rs"]
mod proxy;
#[path = "../../support/redis.rs"]
mod redis_server;
#[path = "../../support/server.rs"]
mod support;

use binary::Server;
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use flood::Flood;
use leases::Leases;
use proxy::Proxy;
use redis_server::Redis;
use std::time::Duration;
use support::{acquire_request, channel, until};
use tokio::time::{Instant, sleep, sleep_until};
use tonic::transport::Channel;

/// What Redis takes in a second, in bytes.
const BYTES_PER_SECOND: u32 = 300_000;
/// A grant needs about so many of them.
const BYTES_PER_GRANT: u32 = 400;
const OFFERED_PER_SECOND: u32 = 10 * BYTES_PER_SECOND / BYTES_PER_GRANT;
/// Connections, each with a session, over which they come.
const FLOODING: usize = 16;

type Client = LockServiceClient<Channel>;

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

async fn overload(delay: Duration) {
    let span = Duration::from_secs(number("FENCEPOST_OVERLOAD_SECONDS", 8) as u64);
    let count = number("FENCEPOST_LEASES", 1_000);
    let redis = Redis::start(&[]);
    let proxy = Proxy::slow(delay, redis.port).await;
    let server = Server::start_with(&["--store", &proxy.url()]);
    let client = || -> Client { LockServiceClient::new(channel(server.url["http://".len()..].parse().unwrap())) };
    until(|| async { client().acquire(acquire_request("probe", leases::TTL)).await.is_ok() }).await;
    let kept = Leases::acquire(count, client).await;
    // The first renewal of a lease is written, and no other one.
    sleep(leases::TTL).await;
    proxy.narrows(BYTES_PER_SECOND);
    let end = Instant::now() + span;
    let flood = Flood::begin((0..FLOODING).map(|_| client()).collect(), OFFERED_PER_SECOND, end);
    sleep_until(end).await;
    let (leases, flood) = (kept.done().await, flood.done().await);
    println!("{count} leases for {span:?}, replies {delay:?} late: {leases:?}; {flood:?}");
    assert_eq!((leases.ended, leases.lost), (0, 0), "{leases:?} {flood:?}");
    assert!(leases.renewals as f64 >= 0.5 * count as f64 * span.as_secs_f64(), "{leases:?}");
    // The load was an overload, acquires did not starve, and what was not granted was refused with the reason.
    assert!(flood.offered as f64 > 5.0 * flood.granted as f64, "{flood:?}");
    let capacity = f64::from(BYTES_PER_SECOND / BYTES_PER_GRANT) * span.as_secs_f64();
    assert!(flood.granted as f64 > 0.3 * capacity, "{flood:?}");
    assert!(flood.refused > flood.offered / 2, "{flood:?}");
    assert!(server.log().contains("acquires come faster than redis writes grants"), "{}", server.log());
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_outlast_ten_times_the_acquires_that_redis_takes() {
    overload(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn they_do_if_each_reply_of_redis_is_late() {
    overload(Duration::from_millis(20)).await;
}
