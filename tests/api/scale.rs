//! Many leases on few streams. A test target of its own, because it keeps the machine busy.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../support/many.rs"]
mod many;
#[path = "../support/stream.rs"]
mod stream;
#[path = "../support/server.rs"]
mod support;

use many::Many;
use std::time::Duration;
use support::Server;

const TTL: Duration = Duration::from_secs(12);
const MANY: Many =
    Many { streams: 10, leases_per_stream: 10_000, ttl: TTL, at_once: 16, span: Duration::from_secs(24) };

#[tokio::test(flavor = "multi_thread")]
async fn ten_streams_keep_a_hundred_thousand_leases_alive() {
    let server = Server::start().await;
    let counts = MANY.keep(|| server.client()).done().await;
    let leases = MANY.streams * MANY.leases_per_stream;
    // Each lease is renewed about three times in a TTL, and the span is two TTLs.
    assert!(counts.renewals >= 2 * leases, "{counts:?}");
    assert_eq!(counts.at_risk, 0);
    println!("{leases} leases on {} streams, {} renewals, none lost", MANY.streams, counts.renewals);
}
