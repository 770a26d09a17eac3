//! Acquires come ten times as fast as Redis takes grants, beside leases of 3 s that another client keeps. Not one of
//! these may end.
//!
//! A proxy bounds what Redis takes in a second, so that the overload is the same on each machine.
//! `FENCEPOST_OVERLOAD_SECONDS` makes it last, and `FENCEPOST_LEASES` keeps more leases. `lanes` has the same in
//! virtual time, also with a Redis that answers late.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../../support/binary.rs"]
mod binary;
mod flood;
mod leases;
#[path = "../../support/proxy.rs"]
mod proxy;
mod quota;
#[path = "../../support/redis.rs"]
mod redis_server;
mod streams;
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
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, sleep_until},
};
use tonic::{
    Request, Status,
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

/// What Redis takes in a second, in bytes.
const BYTES_PER_SECOND: u32 = 300_000;
/// A grant needs about so many of them.
const BYTES_PER_GRANT: u32 = 400;
const OFFERED_PER_SECOND: u32 = 10 * BYTES_PER_SECOND / BYTES_PER_GRANT;
/// Connections, each with a session, over which they come.
const FLOODING: usize = 16;
/// Streams that are opened in a second, in a debug build.
const STREAMS_PER_SECOND: u32 = 1_600;

/// The token of an identity, if there is one.
#[derive(Clone, Copy)]
struct Token(Option<&'static str>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = self.0 {
            request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        Ok(request)
    }
}

type Client = LockServiceClient<InterceptedService<Channel, Token>>;

/// One test at a time: each uses up what this machine can do.
static ALONE: Mutex<()> = Mutex::const_new(());

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

fn span() -> Duration {
    Duration::from_secs(number("FENCEPOST_OVERLOAD_SECONDS", 8) as u64)
}

fn client_of(server: &Server) -> Client {
    as_identity(server, None)
}

/// A client with this token.
fn as_identity(server: &Server, token: Option<&'static str>) -> Client {
    let channel = channel(server.url["http://".len()..].parse().unwrap());
    LockServiceClient::with_interceptor(channel, Token(token))
}

async fn start(url: &str) -> Server {
    start_with(url, &[], None).await
}

/// Starts a server, and waits until it grants locks to this identity.
async fn start_with(url: &str, flags: &[&str], token: Option<&'static str>) -> Server {
    let server = Server::start_with(&[&["--store", url], flags].concat());
    until(|| async { as_identity(&server, token).acquire(acquire_request("probe", leases::TTL)).await.is_ok() }).await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_outlast_ten_times_the_acquires_that_redis_takes() {
    let _alone = ALONE.lock().await;
    let (span, count) = (span(), number("FENCEPOST_LEASES", 300));
    let redis = Redis::start(&[]);
    let proxy = Proxy::slow(Duration::ZERO, redis.port).await;
    let server = start(&proxy.url()).await;
    let client = || client_of(&server);
    let kept = Leases::acquire(count, client).await;
    // The first renewal of a lease is written, and no other one.
    sleep(leases::TTL).await;
    proxy.narrows(BYTES_PER_SECOND);
    let end = Instant::now() + span;
    let flood = Flood::begin((0..FLOODING).map(|_| client()).collect(), OFFERED_PER_SECOND, end);
    sleep_until(end).await;
    let (leases, flood) = (kept.done().await, flood.done().await);
    println!("{count} leases for {span:?}: {leases:?}; {flood:?}");
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
async fn they_do_beside_a_flood_of_streams() {
    let _alone = ALONE.lock().await;
    let (span, count) = (span(), number("FENCEPOST_LEASES", 300));
    let redis = Redis::start(&[]);
    let server = start(&redis.url()).await;
    let kept = Leases::acquire(count, || client_of(&server)).await;
    let clients = (0..FLOODING).map(|_| client_of(&server)).collect();
    let opened = streams::flood(clients, STREAMS_PER_SECOND, Instant::now() + span).await;
    let leases = kept.done().await;
    println!("{count} leases for {span:?}: {leases:?}; {opened} streams");
    assert_eq!((leases.ended, leases.lost), (0, 0), "{leases:?}");
    assert!(leases.renewals as f64 >= 0.5 * count as f64 * span.as_secs_f64(), "{leases:?}");
    assert!(opened > 100 * span.as_secs(), "{opened}");
}
