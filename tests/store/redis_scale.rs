//! Many leases on few streams, on Redis: what it costs, and what it leaves for others. By itself, since it keeps the
//! machine busy.
#![allow(clippy::unwrap_used)] // also in what the tests share

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
use support::{Lock, channel, until, wish};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

/// `make redis-scale` says more.
const LEASES: usize = 10_000;
const STREAMS: usize = 10;
const TTL: Duration = Duration::from_secs(15);
const SPAN: Duration = Duration::from_secs(30);
/// Between two tries by somebody else.
const PAUSE: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn many_leases_live_on_ten_streams() {
    let leases = std::env::var("FENCEPOST_LEASES").map_or(LEASES, |text| text.parse().unwrap());
    let redis = Redis::start(&[]);
    let server = Server::start_with(&["--store", &redis.url()]);
    let mut client = client_of(&server);
    until(|| async { client_of(&server).acquire(wish("probe", TTL)).await.is_ok() }).await;
    let begun = Instant::now();
    let many = Many { streams: STREAMS, leases_per_stream: leases / STREAMS, ttl: TTL, at_once: 3, span: SPAN };
    let keepers = many.keep(|| client_of(&server));
    keepers.all_attached().await;
    println!("{leases} leases acquired and attached in {:?}", begun.elapsed());

    let server_pid = u32::try_from(server.process.pid().as_raw()).unwrap();
    let cpu = || [cpu_of(redis.pid), cpu_of(server_pid), cpu_of(std::process::id())];
    let (begun, scripts, before) = (Instant::now(), redis.calls("evalsha"), cpu());
    let (mut tries, mut refused) = (Vec::new(), 0);
    while begun.elapsed() < SPAN {
        let (asked, again) = (Instant::now(), wish("else", TTL));
        match client.acquire(again).await {
            Ok(lease) => {
                tries.push(asked.elapsed());
                let _ = client.give_back(lease.into_inner().lease.as_ref().unwrap()).await;
            }
            Err(_) => refused += 1,
        }
        sleep(PAUSE).await;
    }
    let (took, scripts, after) = (begun.elapsed().as_secs_f64(), redis.calls("evalsha") - scripts, cpu());
    let told = keepers.done().await;
    tries.sort_unstable();
    let share = |index: usize| (after[index] - before[index]) / took * 100.0;
    println!(
        "{leases} leases of {TTL:?} on {STREAMS} streams for {took:.0} s: {:.0} renewals/s, {:.0} scripts/s, {} at \
         risk, none \
         lost; CPU: redis {:.0} %, server {:.0} %, clients {:.0} %; a try beside it: {:?} at the median, {:?} at most, \
         of {}; {refused} without an \
         outcome",
        told.renewals as f64 / SPAN.as_secs_f64(),
        scripts as f64 / took,
        told.at_risk,
        share(0),
        share(1),
        share(2),
        tries[tries.len() / 2],
        tries[tries.len() - 1],
        tries.len(),
    );
    // About three times in each TTL, and more than once.
    assert!(told.renewals >= 2 * leases, "{told:?}");
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

fn client_of(server: &Server) -> LockServiceClient<Channel> {
    LockServiceClient::new(channel(server.url.trim_start_matches("http://").parse().unwrap()))
}

/// Seconds of processor time that a process has used; 0 where that cannot be read.
fn cpu_of(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Of the fields behind the name in brackets, the 12th and 13th: user and system time, in hundredths of a second.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
