//! Many leases on few streams. By itself, since it keeps the machine busy.
#![allow(clippy::unwrap_used)] // also in what the tests share

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
async fn a_hundred_thousand_leases_live_on_ten_streams() {
    let server = Server::start().await;
    let told = MANY.keep(|| server.client()).done().await;
    let leases = MANY.streams * MANY.leases_per_stream;
    // Each lease was renewed more than once in each of the last two TTLs: about three times, or it would be close to
    // its end.
    assert!(told.renewals >= 2 * leases, "{told:?}");
    assert_eq!(told.at_risk, 0);
    println!("{leases} leases on {} streams, {} renewals, none lost", MANY.streams, told.renewals);
}
