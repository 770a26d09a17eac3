//! Leases without faults, and what others see of them.

use crate::{
    calls::{Lock, read},
    driver::Driver,
    link::Link,
    world::{Cell, LONG, NO_WAIT},
};
use serde_json::json;
use std::{collections::HashSet, fs, time::Duration};
use tokio::time::{Instant, sleep};

const THOUSAND: usize = 1_000;
/// Of one client, whatever the number of its locks: one for the session, one for other calls, some that replaced them.
const CONNECTIONS_MAX: usize = 4;
/// What a client keeps back of a lease for different clock rates, and as the time between a check and the action.
const DRIFT_DIVISOR: u32 = 100;
const MARGIN_DIVISOR: u32 = 20;

/// A lease is renewed for as long as it is held.
pub(crate) async fn kept(cell: Cell) {
    const TTL: Duration = Duration::from_secs(3);
    let (client, name, file) = (cell.client().await, cell.name("lock"), cell.file("tokens"));
    let lock = client.acquire(&name, TTL).await;
    sleep(TTL * 2).await;
    let left = client.valid_for(&name).await.expect("the lock is valid");
    assert!(!left.is_zero() && left < TTL, "{left:?}");
    validity(&cell, &client, &name).await;
    assert_eq!(client.events("lost", &name).len(), 0);
    let holder = cell.world.locks().holder(&name).await.expect("a holder");
    assert_eq!((holder.fencing_token, holder.holder.as_str()), (lock.token, "interop"));
    client.ask_write(&name, &file).await.answer().await.expect("the holder writes");
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{}\n", lock.token));
    assert_eq!(client.release(&name).await, "released");
    assert!(cell.world.locks().holder(&name).await.is_none(), "the lock is free");
    let (kind, _) = client.ask_write(&name, &file).await.failed().await;
    assert_eq!(kind, "lost", "nobody writes after the release");
    assert_eq!(client.events("lost", &name).len(), 0, "a release is not a loss");
}

/// No renewal extends a lease beyond its max_hold. The client knows that none is missing, and stops in time.
pub(crate) async fn bounded(cell: Cell) {
    const TTL: Duration = Duration::from_secs(6);
    const MAX_HOLD: Duration = Duration::from_secs(9);
    let (client, name) = (cell.client().await, cell.name("lock"));
    let fields = json!({ "lock": name, "name": name, "ttl_ms": 6_000, "max_hold_ms": 9_000 });
    let asked = Instant::now();
    let lock = client.ask("acquire", fields).await.granted().await;
    let arrived = Instant::now();
    // Without a bound, the holder's renewals would keep it for as long as this waits.
    let next = client.ask_acquire("next", &name, LONG, LONG).await;
    assert_eq!(client.loss(&name).await, "max_hold");
    assert!(asked.elapsed() > TTL, "it was renewed");
    assert!(arrived.elapsed() < MAX_HOLD + TTL / 2, "no renewal extends it");
    assert_eq!(client.events("at_risk", &name).len(), 0, "no renewal is missing");
    assert_eq!(client.release(&name).await, "unspecified");
    let next = next.granted().await;
    assert!(next.token > lock.token);
    assert_eq!(client.release("next").await, "released");
}

/// A lock with a min_hold that is released at once stays unavailable, for waiters too.
pub(crate) async fn unavailable(cell: Cell) {
    const MIN_HOLD: Duration = Duration::from_secs(5);
    let (client, name) = (cell.client().await, cell.name("lock"));
    let fields = json!({ "lock": name, "name": name, "ttl_ms": 30_000, "min_hold_ms": 5_000, "lock_delay_ms": 60_000 });
    let asked = Instant::now();
    let lock = client.ask("acquire", fields).await.granted().await;
    assert_eq!(client.release(&name).await, "released");
    let (kind, _) = client.ask_acquire("early", &name, LONG, NO_WAIT).await.failed().await;
    assert_eq!(kind, "contended");
    let next = client.ask_acquire("next", &name, LONG, LONG).await.granted().await;
    assert!(asked.elapsed() >= MIN_HOLD && next.token > lock.token);
    assert_eq!(client.release("next").await, "released");
}

/// The client counts the validity from when it sent the request or the answer to a beat, and keeps back the drift and
/// the margin: it ends before the lease on the server.
async fn validity(cell: &Cell, client: &Driver, name: &str) {
    let asked = Instant::now();
    let left = client.valid_for(name).await.expect("the lock is valid");
    let holder = cell.world.locks().holder(name).await.expect("a holder");
    let (ttl, on_server) = (read(holder.ttl), read(holder.expires_in));
    let kept_back = ttl / DRIFT_DIVISOR + ttl / MARGIN_DIVISOR;
    // Between the two answers, the lease can only have been renewed. Both round to milliseconds.
    let latest = on_server + asked.elapsed() + Duration::from_millis(2);
    assert!(
        left + kept_back <= latest,
        "{left:?} left by the client, {on_server:?} by the server: {kept_back:?} kept back"
    );
}

/// One client keeps a thousand locks on one stream.
pub(crate) async fn thousand(cell: Cell) {
    const TTL: Duration = Duration::from_secs(8);
    let link = Link::to(&cell.world.address).await;
    let client = cell.client_of(&[&link.address]).await;
    let names: Vec<_> = (0..THOUSAND).map(|number| cell.name(&number.to_string())).collect();
    let mut asked = Vec::new();
    for name in &names {
        asked.push(client.ask_acquire(name, name, TTL, LONG).await);
    }
    let mut tokens = HashSet::new();
    for asked in asked {
        tokens.insert(asked.granted().await.token);
    }
    assert!(tokens.iter().all(|token| *token > 0));
    sleep(TTL * 5 / 4).await;
    for name in &names {
        assert!(client.valid_for(name).await.is_some(), "{name} is kept");
    }
    let prefix = cell.name("");
    let listed = client.call("list", json!({ "prefix": prefix })).await.expect("a list");
    let listed: HashSet<_> = listed["names"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(listed, names.iter().map(String::as_str).collect(), "all pages are read");
    let mut asked = Vec::new();
    for name in &names {
        asked.push(client.ask("release", json!({ "lock": name })).await);
    }
    for asked in asked {
        assert_eq!(asked.release_end().await, "released");
    }
    let listed = client.call("list", json!({ "prefix": prefix })).await.expect("a list");
    assert_eq!(listed["names"], json!([]));
    assert!(link.connections() <= CONNECTIONS_MAX, "{} connections", link.connections());
}

/// Get, List, Watch and CheckToken.
pub(crate) async fn reads(cell: Cell) {
    let (client, name) = (cell.client().await, cell.name("lock"));
    let get = async || client.call("get", json!({ "name": name })).await.expect("a lock");
    let check = async |token: u64| {
        let answer = client.call("check_token", json!({ "name": name, "token": token })).await.expect("a status");
        answer["status"].as_str().expect("status").to_owned()
    };
    let free = get().await;
    assert_eq!((&free["holder"], &free["token"], &free["waiters"]), (&json!(null), &json!(0), &json!(0)));
    client.call("watch", json!({ "prefix": cell.name("") })).await.expect("the watch has started");
    let lock = client.acquire(&name, LONG).await;
    assert_eq!(lock.previous_end, "unspecified");
    let held = get().await;
    assert_eq!((&held["holder"], &held["token"]), (&json!("interop"), &json!(lock.token)));
    assert_eq!(check(lock.token).await, "current");
    let listed = client.call("list", json!({ "prefix": cell.name("") })).await.expect("a list");
    assert_eq!(listed["names"], json!([name]));
    assert_eq!(client.release(&name).await, "released");
    assert_eq!(check(lock.token).await, "ended");
    let again = client.ask_acquire("again", &name, LONG, NO_WAIT).await.granted().await;
    assert!(again.token > lock.token, "tokens rise");
    assert_eq!(again.previous_end, "released");
    assert_eq!(check(lock.token).await, "stale");
    assert_eq!(client.release("again").await, "released");
    // Events come in order.
    let all = crate::calls::until(async || client.events("watch", &name).len() >= 4);
    all.await;
    let events = client.events("watch", &name);
    let seen: Vec<_> = events.iter().map(|event| (event["kind"].as_str().unwrap(), &event["token"])).collect();
    let (first, second) = (json!(lock.token), json!(again.token));
    assert_eq!(seen, [("granted", &first), ("released", &first), ("granted", &second), ("released", &second)]);
    assert!(events.iter().all(|event| event["holder"] == "interop"), "{events:?}");
}
