//! Redis goes away and comes back.

use super::{COUNT, GET, Kept, Redis, SET, eventually, log, refused_because, unavailable};
use fencepost::testing::node::{Arg, NodeError, ScriptCall, Value};
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[tokio::test]
async fn connects_when_redis_comes_late() {
    let port = Redis::free_port();
    let kept = Kept::to_url(&format!("redis://127.0.0.1:{port}"));
    let start = Instant::now();
    // At once, and at first without a reason that is known.
    unavailable(kept.node.connection(1));
    assert!(start.elapsed() < Duration::from_millis(50));
    refused_because(&kept, "nothing listens").await;
    let _redis = Redis::start_at(port, &[]);
    let start = Instant::now();
    kept.all_up().await;
    // The longest pause is a second.
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!(kept.count().await, Ok(1));
}

#[tokio::test]
async fn a_restarted_redis_is_another_one() {
    let mut redis = Redis::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let kept = Kept::to(&redis).await;
    assert_eq!(kept.count().await, Ok(1));
    let (old, before) = (kept.connection(), kept.connection().incarnation());

    redis.kill();
    // Without any call: the connections say that they broke.
    kept.becomes(false).await;
    assert!(unavailable(kept.node.connection(1)).len() > 20);
    assert!(matches!(old.run(&COUNT, &["{7}n".into()], &[]).await, Err(NodeError::Unavailable(_))));

    redis.restart(true);
    kept.becomes(true).await;
    assert_eq!(kept.count().await, Ok(2), "the data was kept");
    assert_ne!(kept.connection().incarnation(), before);
    assert!(matches!(old.run(&COUNT, &["{7}n".into()], &[]).await, Err(NodeError::Unavailable(_))), "never again");

    let before = kept.connection().incarnation();
    redis.restart(false);
    kept.counts_again().await;
    assert_ne!(kept.connection().incarnation(), before);
}

#[tokio::test]
async fn a_redis_that_stands_still_makes_the_outcome_unknown() {
    let redis = Redis::start(&[]);
    let kept = Kept::to(&redis).await;
    assert_eq!(kept.count().await, Ok(1));
    let before = kept.connection().incarnation();
    redis.pause();
    let start = Instant::now();
    let unknown = kept.count().await;
    let took = start.elapsed();
    assert!(matches!(unknown, Err(NodeError::OutcomeUnknown(_))), "{unknown:?}");
    assert!((Duration::from_millis(450)..Duration::from_millis(900)).contains(&took), "{took:?}");
    // A call without an answer has the connection checked. It fails, and from then on commands are refused at once.
    kept.becomes(false).await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    let asked = Instant::now();
    assert!(unavailable(kept.node.connection(1)).contains("in time"));
    assert!(asked.elapsed() < Duration::from_millis(50));
    sleep(Duration::from_secs(1)).await;

    redis.resume();
    kept.all_up().await;
    assert_eq!(kept.connection().incarnation(), before, "the same incarnation");
    // What was in its buffer ran: this is why it was unknown.
    assert_eq!(kept.count().await, Ok(3));
}

#[tokio::test]
async fn scripts_that_redis_forgot_are_loaded() {
    let redis = Redis::start(&[]);
    let kept = Kept::to(&redis).await;
    assert_eq!(kept.count().await, Ok(1), "a new Redis knows none");
    redis.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(kept.count().await, Ok(2));

    redis.command(&["CONFIG", "RESETSTAT"]);
    redis.command(&["SCRIPT", "FLUSH"]);
    let call = |script, key: &str, args: &[&str]| ScriptCall {
        script,
        keys: vec![format!("{{7}}{key}").into()],
        args: args.iter().map(|arg| Arg::from(*arg)).collect(),
    };
    let mut calls = vec![call(&COUNT, "n", &[]), call(&SET, "k", &["1"]), call(&GET, "k", &[])];
    calls.extend((0..100).map(|_| call(&COUNT, "n", &[])));
    let replies = kept.connection().run_all(&calls).await;
    assert_eq!(replies[0], Ok(Value::Int(3)));
    assert_eq!(replies[2], Ok(Value::BulkString("1".into())));
    assert_eq!(replies[102], Ok(Value::Int(103)));
    assert_eq!(redis.calls("script|load"), 3, "each once");
    assert_eq!(kept.connection().run_all(&calls).await[102], Ok(Value::Int(204)));
    assert_eq!(redis.calls("script|load"), 3);
    assert_eq!(kept.connection().run_all::<ScriptCall>(&[]).await, []);
}

#[tokio::test]
async fn connections_that_are_killed_are_replaced_and_none_leaks() {
    let redis = Redis::start(&[]);
    let kept = Kept::to(&redis).await;
    let mut pushes = kept.node.subscribe("c");
    pushes.recv().await.unwrap();
    for round in 0..50 {
        redis.command(&["CLIENT", "KILL", "TYPE", if round % 2 == 0 { "normal" } else { "pubsub" }]);
        // The next caller may meet it; the one after that does not.
        let took = kept.counts_again().await;
        assert!(took < Duration::from_secs(2), "round {round}: {took:?}");
    }
    kept.all_up().await;
    eventually("four connections, the subscription, and the test's own", || {
        redis.command(&["CLIENT", "LIST"]).text().lines().count() == 6
    })
    .await;
}

#[tokio::test]
async fn a_dropped_call_runs_or_does_not() {
    let redis = Redis::start(&[]);
    let kept = Kept::to(&redis).await;
    assert_eq!(kept.count().await, Ok(1));
    redis.pause();
    let connection = kept.connection();
    {
        let keys = ["{7}n".into()];
        let call = connection.run(&COUNT, &keys, &[]);
        assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());
    }
    redis.resume();
    // It was sent with the first poll, so it ran; and the connection works as before.
    assert_eq!(connection.run(&COUNT, &["{7}n".into()], &[]).await, Ok(Value::Int(3)));
}

#[tokio::test]
async fn the_log_tells_once_that_redis_is_lost_and_once_that_it_is_back() {
    let mut redis = Redis::start(&["--requirepass", "s3cret"]);
    let kept = Kept::to(&redis).await;
    redis.kill();
    kept.becomes(false).await;
    refused_because(&kept, "nothing listens").await;
    sleep(Duration::from_secs(1)).await;
    redis.restart(false);
    kept.all_up().await;
    let text = log::lines_with(&format!("127.0.0.1:{}", redis.port)).join("\n");
    let lines = |of: &str| text.lines().filter(|line| line.contains(of)).count();
    assert_eq!(lines("connected to redis"), 2, "{text}");
    assert_eq!(lines("redis cannot be used"), 1, "{text}");
    // With the reason that it stays away, which is not the one for which it was lost.
    assert!(lines("redis still cannot be used") <= 3 && text.contains("nothing listens"), "{text}");
    assert!(!text.contains("s3cret") && text.lines().count() <= 6, "{text}");
}
