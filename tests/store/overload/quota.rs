//! One identity floods the server, beside the leases and the acquires of another one. With a quota it takes nothing
//! from them, however long it lasts: what is above the quota is refused before it costs the store anything.

use crate::{
    ALONE, BYTES_PER_GRANT, BYTES_PER_SECOND, Client, FLOODING, OFFERED_PER_SECOND, as_identity,
    flood::Flood,
    leases::{self, Leases},
    number,
    proxy::Proxy,
    redis_server::Redis,
    span, start_with,
    support::acquire_request,
};
use fencepost_proto::v1::{ReleaseRequest, acquire_response::Outcome};
use ring::digest::{SHA256, digest};
use std::{path::Path, time::Duration};
use tokio::time::{Instant, interval, sleep};

/// A tenth of what Redis takes.
const ALLOWED_PER_SECOND: u32 = BYTES_PER_SECOND / BYTES_PER_GRANT / 10;
/// Between two pairs of the identity that is not flooding.
const PACE: Duration = Duration::from_millis(100);

fn write_access(path: &Path) {
    let token = |name: &str| {
        let digest = digest(&SHA256, name.as_bytes());
        let sha256: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("[[token]]\nname = \"{name}\"\nsha256 = \"{sha256}\"\n")
    };
    let rule = "[[rule]]\nwho = [\"*\"]\nmay = [\"acquire\"]\nlocks = [\"\"]\n";
    let quota = format!("[[quota]]\nwho = [\"flood\"]\nacquires_per_second = {ALLOWED_PER_SECOND}\n");
    let text = ["mode = \"enforce\"\n", &token("flood"), &token("keep"), rule, &quota].concat();
    std::fs::write(path, text).unwrap();
}

/// The time within which 99 of 100 acquires at a fixed rate have their lock, from when they were due.
async fn p99(mut client: Client, span: Duration) -> Duration {
    let (mut ticks, end) = (interval(PACE), Instant::now() + span);
    let mut times = Vec::new();
    while Instant::now() < end {
        let due = ticks.tick().await;
        let acquired = client.acquire(acquire_request("paced", leases::TTL)).await.unwrap().into_inner();
        assert_eq!(acquired.outcome(), Outcome::Acquired, "{acquired:?}");
        times.push(due.elapsed());
        let lease = acquired.lease.unwrap();
        let release = ReleaseRequest { lock_name: lease.lock_name, lease_id: lease.lease_id };
        client.release(release).await.unwrap();
    }
    times.sort();
    times[times.len() * 99 / 100]
}

async fn flood_beside_others(delay: Duration) {
    let _alone = ALONE.lock().await;
    let (span, count) = (span(), number("FENCEPOST_LEASES", 300));
    let (redis, folder) = (Redis::start(&[]), tempfile::tempdir().unwrap());
    let access = folder.path().join("access.toml");
    write_access(&access);
    let proxy = Proxy::slow(delay, redis.port).await;
    let client = |server: &_, name| as_identity(server, Some(name));
    let server = start_with(&proxy.url(), &["--access", &access.display().to_string()], Some("keep")).await;
    let kept = Leases::acquire(count, || client(&server, "keep")).await;
    // The first renewal of a lease is written, and no other one.
    sleep(leases::TTL).await;
    proxy.narrows(BYTES_PER_SECOND);
    let quiet = p99(client(&server, "keep"), span / 2).await;
    let flooding = (0..FLOODING).map(|_| client(&server, "flood")).collect();
    let flood = Flood::begin(flooding, OFFERED_PER_SECOND, Instant::now() + span);
    let beside = p99(client(&server, "keep"), span).await;
    let (leases, flood) = (kept.done().await, flood.done().await);
    println!(
        "{count} leases for {span:?}, Redis answers {delay:?} late: {leases:?}; {flood:?}; p99 of an acquire {quiet:?} \
         before and {beside:?} beside the flood: {:.2}",
        beside.as_secs_f64() / quiet.as_secs_f64()
    );
    assert_eq!((leases.ended, leases.lost), (0, 0), "{leases:?} {flood:?}");
    // It was a flood, it got its quota and no more, and what was above it has the reason.
    assert!(flood.offered > 5 * flood.granted, "{flood:?}");
    let allowed = f64::from(ALLOWED_PER_SECOND) * (span.as_secs_f64() + 1.0);
    assert!(flood.granted as f64 <= allowed && flood.granted as f64 > 0.5 * allowed, "{allowed} {flood:?}");
    assert_eq!(flood.failed.keys().collect::<Vec<_>>(), ["QUOTA_EXCEEDED"], "{flood:?}");
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_leaves_others_their_leases_and_their_pace() {
    flood_beside_others(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_does_with_a_redis_that_answers_late() {
    flood_beside_others(Duration::from_millis(20)).await;
}
