//! Many leases on few streams, on Redis: the load, and the latency of other calls. A test target of its own, because it
//! keeps the machine busy.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../support/binary.rs"]
mod binary;
#[path = "../support/many.rs"]
mod many;
#[path = "../support/redis.rs"]
mod redis_server;
#[path = "../support/stream.rs"]
mod stream;
#[path = "../support/server.rs"]
mod support;

use binary::Server;
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use many::Many;
use redis_server::Redis;
use std::time::Duration;
use support::{Lock, acquire_request, channel, until};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

/// `make redis-scale` uses more.
const LEASES: usize = 10_000;
const STREAMS: usize = 10;
const TTL: Duration = Duration::from_secs(15);
const SPAN: Duration = Duration::from_secs(30);
/// Between two calls of another client.
const PAUSE: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn ten_streams_keep_many_leases_alive() {
    let leases = std::env::var("FENCEPOST_LEASES").map_or(LEASES, |text| text.parse().unwrap());
    let redis = Redis::start(&[]);
    let server = Server::start_with(&["--store", &redis.url()]);
    let mut client = client_of(&server);
    until(|| async { client_of(&server).acquire(acquire_request("probe", TTL)).await.is_ok() }).await;
    let begun = Instant::now();
    let many = Many { streams: STREAMS, leases_per_stream: leases / STREAMS, ttl: TTL, at_once: 3, span: SPAN };
    let streams = many.keep(|| client_of(&server));
    streams.all_attached().await;
    println!("{leases} leases acquired and attached in {:?}", begun.elapsed());

    let server_pid = u32::try_from(server.process.pid().as_raw()).unwrap();
    let cpu = || [cpu_of(redis.pid), cpu_of(server_pid), cpu_of(std::process::id())];
    let (begun, scripts, before) = (Instant::now(), redis.calls("evalsha"), cpu());
    let (mut latencies, mut failed) = (Vec::new(), 0);
    while begun.elapsed() < SPAN {
        let (sent, request) = (Instant::now(), acquire_request("else", TTL));
        match client.acquire(request).await {
            Ok(lease) => {
                latencies.push(sent.elapsed());
                let _ = client.release_lease(lease.into_inner().lease.as_ref().unwrap()).await;
            }
            Err(_) => failed += 1,
        }
        sleep(PAUSE).await;
    }
    let (took, scripts, after) = (begun.elapsed().as_secs_f64(), redis.calls("evalsha") - scripts, cpu());
    let counts = streams.done().await;
    latencies.sort_unstable();
    let share = |index: usize| (after[index] - before[index]) / took * 100.0;
    println!(
        "{leases} leases of {TTL:?} on {STREAMS} streams for {took:.0} s: {:.0} renewals/s, {:.0} scripts/s, {} at \
         risk, none lost; CPU: redis {:.0} %, server {:.0} %, clients {:.0} %; calls of another client: median {:?}, \
         maximum {:?}, of {}; {failed} failed",
        counts.renewals as f64 / SPAN.as_secs_f64(),
        scripts as f64 / took,
        counts.at_risk,
        share(0),
        share(1),
        share(2),
        latencies[latencies.len() / 2],
        latencies[latencies.len() - 1],
        latencies.len(),
    );
    // Each lease is renewed about three times in a TTL, and the span is two TTLs.
    assert!(counts.renewals >= 2 * leases, "{counts:?}");
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

fn client_of(server: &Server) -> LockServiceClient<Channel> {
    LockServiceClient::new(channel(server.url.trim_start_matches("http://").parse().unwrap()))
}

/// The CPU time of a process in seconds; 0 without /proc.
fn cpu_of(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The 12th and 13th fields after the name in parentheses: user and system time, in hundredths of a second.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
