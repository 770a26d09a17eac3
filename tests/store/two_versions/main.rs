//! A server of the version before and one of this version on one Redis, under load: no wrong grant, and what the
//! earlier one does not know is refused with a clear error.
//!
//! `make two-versions` builds the earlier version, and names its program in `FENCEPOST_BEFORE`.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../../support/binary.rs"]
mod binary;
mod load;
#[path = "../../support/redis.rs"]
mod redis;

use binary::Server;
use fencepost_client::{AcquireError, Client, Lock, raw::v1::GetRequest};
use futures_util::future::join_all;
use load::Load;
use nix::sys::signal::Signal;
use redis::Redis;
use std::{env, future::IntoFuture, path::PathBuf, time::Duration};
use tokio::time::{Instant, sleep};

/// Of a lock that outlives the change of servers.
const TTL: Duration = Duration::from_secs(60);
const MAX_HOLD: Duration = Duration::from_secs(300);
/// Longer than a change of servers takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// A server that came gets its share within this time, if it gets any.
const SETTLED_AFTER: Duration = Duration::from_secs(6);

/// The program of the version before.
fn before() -> PathBuf {
    let program = env::var_os("FENCEPOST_BEFORE").expect("FENCEPOST_BEFORE names the program: make two-versions");
    PathBuf::from(program)
}

fn flags(redis: &str) -> [&str; 2] {
    ["--store", redis]
}

fn start_old(redis: &str) -> Server {
    Server::start_program(&before(), &flags(redis))
}

fn start_new(redis: &str) -> Server {
    Server::start_with(&flags(redis))
}

fn client(servers: &[&Server]) -> Client {
    let addressed = servers.iter().fold(Client::builder(), |client, server| client.server(&server.url));
    addressed.retry_for(Duration::from_secs(2)).build().unwrap()
}

async fn bounded(server: &Server, name: &str) -> Result<Lock, AcquireError> {
    client(&[server]).acquire(name).ttl(TTL).max_hold(MAX_HOLD).await
}

/// Repeats it until it is done.
async fn persist<T, E: std::fmt::Display>(mut act: impl AsyncFnMut() -> Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match act().await {
            Ok(done) => return done,
            Err(why) => assert!(begun.elapsed() < PATIENCE, "{why}"),
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Both refuse a bound, each in its words.
async fn refused_by_both(old: &Server, new: &Server) {
    let begun = Instant::now();
    loop {
        match bounded(new, "bounded").await {
            Err(AcquireError::Refused { source }) => {
                assert_eq!(source.reason().as_deref(), Some("NOT_ALL_SERVERS"), "{source}");
                let text = source.to_string();
                assert!(text.contains("1 of the 2 servers of this store are of a version that does not know max_hold"));
                break;
            }
            // It has not seen the other server yet.
            Ok(lock) => drop(lock.release().await),
            // The store is being made, or partitions change their leaders.
            Err(AcquireError::Unavailable { .. } | AcquireError::OutcomeUnknown { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        assert!(begun.elapsed() < PATIENCE, "the new server never sees the old one");
        sleep(Duration::from_millis(100)).await;
    }
    let Err(AcquireError::Invalid { violations, .. }) = bounded(old, "bounded").await else {
        panic!("the old server takes max_hold")
    };
    assert_eq!(violations[0].field, "max_hold");
}

/// The names of the locks with a bound: one in each partition, or more.
fn names() -> impl Iterator<Item = String> {
    (0..40).map(|number| format!("bounded/{number}"))
}

/// Locks with a bound, once the old server is gone for good.
async fn hold_all(new: &Server) -> Vec<(String, Lock)> {
    let mut held = Vec::new();
    for name in names() {
        let lock = persist(async || bounded(new, &name).await).await;
        held.push((name, lock));
    }
    held
}

async fn both_orders(old_first: bool) {
    let redis = Redis::start(&[]);
    let store = redis.url();
    let (old, new) = if old_first {
        let old = start_old(&store);
        (old, start_new(&store))
    } else {
        let new = start_new(&store);
        (start_old(&store), new)
    };
    let load = Load::start(&[client(&[&old, &new]), client(&[&new, &old])]);
    refused_by_both(&old, &new).await;
    load.goes_on().await;
    kill(old);
    let held = hold_all(&new).await;
    load.goes_on().await;

    // One that comes later gets no partition that it cannot read.
    let old = start_old(&store);
    load.use_also(client(&[&old]));
    sleep(SETTLED_AFTER).await;
    assert!(held.iter().all(|(_, lock)| lock.is_valid()));
    refused_by_both(&old, &new).await;
    load.goes_on().await;

    // It cannot lead them either, and grants none of these locks.
    kill(new);
    sleep(SETTLED_AFTER).await;
    let others = client(&[&old]);
    let asked = join_all(held.iter().map(|(name, _)| others.acquire(name).ttl(TTL).into_future())).await;
    assert!(asked.iter().all(Result::is_err), "a lock is granted beside its holder");
    assert!(old.log().contains("this server cannot read a partition, and does not lead it"), "{}", old.log());
    assert!(old.log().contains("layout 2"), "{}", old.log());

    // The next server of this version finds all that the one before held.
    let new = start_new(&store);
    for (name, lock) in &held {
        let calls = client(&[&new]).calls();
        let request = GetRequest { lock_name: name.clone() };
        let lock_info = persist(async || calls.get(request.clone()).await).await.lock.unwrap();
        let tokens: Vec<_> = lock_info.holders.iter().map(|holder| holder.fencing_token).collect();
        assert_eq!(tokens, [lock.token()], "{name}");
    }
    load.use_also(client(&[&new]));
    load.goes_on().await;
    load.end().await;
    drop((old, new));
}

fn kill(server: Server) {
    server.process.signal(Signal::SIGKILL);
    server.process.ended().expect(-(Signal::SIGKILL as i32));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_server_came_first() {
    both_orders(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_server_came_first() {
    both_orders(false).await;
}
