//! A node and its connections, on real Redis processes: what is promised while Redis is away, comes back, refuses
//! commands or is another one.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod errors;
mod headers;
#[path = "../../support/kept.rs"]
mod kept;
mod log;
mod login;
mod pushes;
mod recovery;
#[path = "../../support/redis.rs"]
mod redis;

use fencepost::testing::node::{Arg, Connection, NodeError, RedisUrl, Script, Value};
use kept::{COUNT, Kept};
use redis::Redis;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};

static SET: Script = Script::new("redis.call('SET', KEYS[1], ARGV[1]) return {redis.call('TIME'), ARGV[1]}");
static GET: Script = Script::new("#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])");

impl Kept {
    fn to_url(url: &str) -> Self {
        log::keep();
        Self::new(RedisUrl::parse(url).unwrap())
    }

    /// The node at this Redis, all connections up.
    async fn to(redis: &Redis) -> Self {
        let kept = Self::to_url(&redis.url());
        kept.all_up().await;
        kept
    }

    async fn becomes(&self, wanted: bool) {
        let mut up = self.node.up();
        let within = timeout(Duration::from_secs(10), up.wait_for(|up| *up == wanted)).await;
        assert!(within.is_ok(), "not {} in 10 s: {:?}", if wanted { "up" } else { "down" }, self.node.connection(0));
    }

    async fn all_up(&self) {
        self.becomes(true).await;
        eventually("all connections are up", || self.distinct() == 4).await;
    }

    fn distinct(&self) -> usize {
        let mut connections: Vec<_> = (0..4)
            .filter_map(|number| self.node.connection(number).ok())
            .map(|connection| Arc::as_ptr(&connection))
            .collect();
        connections.sort_unstable();
        connections.dedup();
        connections.len()
    }

    fn connection(&self) -> Arc<Connection> {
        self.node.connection(0).unwrap()
    }

    /// Counts until it works, and says how long that took.
    async fn counts_again(&self) -> Duration {
        let start = Instant::now();
        while let Err(error) = self.count().await {
            assert!(!matches!(error, NodeError::Corrupt(_)), "{error}");
            assert!(start.elapsed() < Duration::from_secs(10), "{error}");
            sleep(Duration::from_millis(20)).await;
        }
        start.elapsed()
    }
}

/// Waits for a reason of the refusals.
async fn refused_because(kept: &Kept, says: &str) {
    let start = Instant::now();
    loop {
        let said = kept.node.connection(1).map_or_else(|error| error.to_string(), |_| "up".to_owned());
        if said.contains(says) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "not {says:?} but {said:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "not within 10 s: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

fn unavailable<T: std::fmt::Debug>(result: Result<T, NodeError>) -> String {
    match result {
        Err(NodeError::Unavailable(why)) => why,
        other => panic!("not Unavailable: {other:?}"),
    }
}

#[tokio::test]
async fn scripts_run_and_a_number_keeps_its_connection() {
    let redis = Redis::start(&[]);
    let kept = Kept::to(&redis).await;
    let (one, other) = (kept.connection(), kept.node.connection(3).unwrap());
    assert!(Arc::ptr_eq(&one, &kept.connection()) && !Arc::ptr_eq(&one, &other));
    assert_eq!(one.incarnation(), other.incarnation());
    assert_eq!(one.info().run_id, redis.info("server", "run_id"));

    let reply = one.run(&SET, &["{7}k".into()], &[Arg::from("värde")]).await.unwrap();
    let Value::Array(parts) = reply else { panic!("{reply:?}") };
    assert_eq!(parts[1], Value::BulkString("värde".into()));
    assert_eq!(other.run(&GET, &["{7}k".into()], &[]).await.unwrap(), Value::BulkString("värde".into()));
    assert_eq!(other.run(&GET, &["{7}none".into()], &[]).await.unwrap(), Value::Nil);
}

#[tokio::test]
async fn many_callers_share_the_connections() {
    let redis = Redis::start(&[]);
    let kept = Kept::to(&redis).await;
    let calls: Vec<_> = (0..200)
        .map(|number| {
            let node = Arc::clone(&kept.node);
            tokio::spawn(async move {
                let connection = node.connection(number)?;
                for _ in 0..10 {
                    connection.run(&COUNT, &["{x}n".into()], &[]).await?;
                }
                Ok::<(), NodeError>(())
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(redis.command(&["GET", "{x}n"]).text(), "2000");
    // Four connections, and that of the test.
    assert_eq!(redis.command(&["CLIENT", "LIST"]).text().lines().count(), 5);
    // No checkout of a pool is paid for with its questions.
    assert!(redis.calls("ping") < 50, "{}", redis.calls("ping"));
}

#[tokio::test]
async fn dropping_run_closes_the_connections() {
    let redis = Redis::start(&[]);
    let kept = Kept::to(&redis).await;
    let connection = kept.connection();
    kept.task.abort();
    kept.becomes(false).await;
    assert!(unavailable(kept.node.connection(1)).contains("stopping"));
    drop((connection, kept));
    eventually("no connection is left", || redis.command(&["CLIENT", "LIST"]).text().lines().count() == 1).await;
}
