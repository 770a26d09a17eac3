//! Each class of refusal, provoked where a Redis can be provoked to it.

use super::{COUNT, GET, Kept, NodeError, Redis, Script, eventually, refused_because, unavailable};
use fencepost::testing::node::{Arg, Value};
use tokio::{io::AsyncWriteExt, net::TcpListener};

static SPIN: Script =
    Script::new("#!lua\nlocal till = redis.call('TIME')[1] + 3 while redis.call('TIME')[1] + 0 < till do end");
static ADD: Script = Script::new("#!lua\nreturn redis.call('INCR', KEYS[1])");
static NIL: Script = Script::new("#!lua\nreturn KEYS[1] + nil");

fn key() -> Vec<Arg> {
    vec!["{7}n".into()]
}

#[tokio::test]
async fn a_primary_that_became_a_replica_is_left() {
    let (redis, other) = (Redis::start(&[]), Redis::start(&[]));
    let kept = Kept::to(&redis).await;
    kept.count().await.unwrap();
    let (old, before) = (kept.connection(), kept.connection().incarnation());
    redis.command(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]);
    let why = unavailable(kept.count().await);
    assert!(why.contains("replica") && why.contains("READONLY"), "{why}");
    unavailable(old.run(&COUNT, &key(), &[]).await);
    kept.becomes(false).await;
    refused_because(&kept, &other.port.to_string()).await;

    let in_sync = || redis.info("replication", "master_link_status") == "up";
    eventually("it holds what the other holds", in_sync).await;

    redis.command(&["REPLICAOF", "NO", "ONE"]);
    kept.becomes(true).await;
    assert_ne!(kept.connection().incarnation(), before, "promoted: another incarnation in the same process");
    assert_eq!(kept.count().await, Ok(1), "what it held was replaced");
}

#[tokio::test]
async fn what_is_stored_and_not_ours_is_corrupt() {
    let redis = Redis::start(&[]);
    let kept = Kept::to(&redis).await;
    redis.command(&["LPUSH", "{7}n", "x"]);
    for script in [&COUNT, &GET] {
        let reply = kept.connection().run(script, &key(), &[]).await;
        assert!(matches!(&reply, Err(NodeError::Corrupt(why)) if why.contains("WRONGTYPE")), "{reply:?}");
    }
    redis.command(&["SET", "{7}n", "x"]);
    for script in [&ADD, &NIL] {
        let reply = kept.connection().run(script, &key(), &[]).await;
        assert!(matches!(reply, Err(NodeError::Corrupt(_))), "{reply:?}");
    }
    // The connection is as good as before.
    let reply = kept.connection().run(&GET, &key(), &[]).await;
    assert_eq!(reply, Ok(Value::BulkString("x".into())));
}

#[tokio::test]
async fn a_redis_that_refuses_writes_says_why() {
    let redis = Redis::start(&[]);
    let kept = Kept::to(&redis).await;
    kept.count().await.unwrap();
    redis.command(&["CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction"]);
    let why = unavailable(kept.count().await);
    assert!(why.contains("maxmemory"), "{why}");
    redis.command(&["CONFIG", "SET", "maxmemory", "0", "min-replicas-to-write", "1"]);
    let why = unavailable(kept.count().await);
    assert!(why.contains("NOREPLICAS"), "{why}");
    redis.command(&[
        "CONFIG",
        "SET",
        "min-replicas-to-write",
        "0",
        "save",
        "1 1",
        "stop-writes-on-bgsave-error",
        "yes",
    ]);
    // A save into a folder that cannot be written to fails.
    redis.command(&["CONFIG", "SET", "rdbcompression", "no"]);
    std::fs::create_dir(redis.folder().join("dump.rdb")).unwrap();
    std::fs::write(redis.folder().join("dump.rdb/x"), "x").unwrap();
    redis.command(&["BGSAVE"]);
    eventually("the save failed", || redis.info("persistence", "rdb_last_bgsave_status") == "err").await;
    let why = unavailable(kept.count().await);
    assert!(why.contains("MISCONF"), "{why}");
    redis.command(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    assert_eq!(kept.count().await, Ok(2));
}

#[tokio::test]
async fn a_script_of_somebody_else_is_waited_for() {
    let redis = Redis::start(&["--busy-reply-threshold", "100"]);
    let kept = Kept::to(&redis).await;
    let slow = kept.connection().run(&SPIN, &[], &[]).await;
    assert!(matches!(slow, Err(NodeError::OutcomeUnknown(_))), "{slow:?}");
    kept.becomes(false).await;
    refused_because(&kept, "SCRIPT KILL").await;
    kept.becomes(true).await;
    assert_eq!(kept.count().await, Ok(1));
}

#[tokio::test]
async fn who_is_not_let_in_is_told_what_to_do() {
    let redis = Redis::start(&["--requirepass", "s3cret"]);
    let port = redis.port;
    let because = async |user: &str, says: &str| {
        let kept = Kept::to_url(&format!("redis://{user}127.0.0.1:{port}"));
        refused_because(&kept, says).await;
        let why = unavailable(kept.node.connection(1));
        assert!(!why.contains("cret") && !*kept.node.up().borrow(), "{why}");
    };
    because("", "Redis answers, but requires a password").await;
    because(":s3cretX@", "Redis answers, and does not accept the user or the password").await;
    because("nobody:s3cret@", "Redis answers, and does not accept the user or the password").await;
    redis.command(&["ACL", "SETUSER", "blind", "on", ">s3cret", "~*", "&*", "+@all", "-info"]);
    because("blind:s3cret@", "ACL SETUSER").await;
    redis.command(&["ACL", "SETUSER", "mute", "on", ">s3cret", "~*", "&*", "+@all", "-evalsha"]);
    because("mute:s3cret@", "ACL SETUSER").await;
    redis.command(&["ACL", "SETUSER", "stranger", "on", ">s3cret", "~other:*", "&*", "+@all"]);
    let kept = Kept::to_url(&format!("redis://stranger:s3cret@127.0.0.1:{port}"));
    kept.becomes(true).await;
    let why = unavailable(kept.count().await);
    assert!(why.contains("ACL SETUSER"), "{why}");
    redis.command(&["ACL", "SETUSER", "reader", "on", ">s3cret", "~*", "&*", "+@all", "-incr"]);
    let kept = Kept::to_url(&format!("redis://reader:s3cret@127.0.0.1:{port}"));
    kept.becomes(true).await;
    let why = unavailable(kept.count().await);
    assert!(why.contains("ACL SETUSER"), "{why}");
    // What is taken away later is noticed, and that it is given back.
    redis.command(&["ACL", "SETUSER", "loser", "on", ">s3cret", "~*", "&*", "+@all"]);
    let kept = Kept::to_url(&format!("redis://loser:s3cret@127.0.0.1:{port}"));
    kept.becomes(true).await;
    kept.count().await.unwrap();
    redis.command(&["ACL", "SETUSER", "loser", "-evalsha"]);
    // Each connection finds out by its next command.
    while let Ok(connection) = kept.node.connection(0) {
        let why = unavailable(connection.run(&COUNT, &["{7}n".into()], &[]).await);
        assert!(why.contains("ACL SETUSER"), "{why}");
    }
    refused_because(&kept, "ACL SETUSER").await;
    redis.command(&["ACL", "SETUSER", "loser", "+evalsha"]);
    kept.becomes(true).await;
    kept.count().await.unwrap();
}

#[tokio::test]
async fn a_replica_and_a_cluster_node_are_refused() {
    let primary = Redis::start(&[]);
    let replica = Redis::start(&["--replicaof", &format!("127.0.0.1 {}", primary.port)]);
    let kept = Kept::to_url(&replica.url());
    let wanted = format!("127.0.0.1:{}", primary.port);
    refused_because(&kept, &wanted).await;

    let node = Redis::start_cluster(&[]);
    let kept = Kept::to_url(&node.url());
    refused_because(&kept, "cluster mode").await;
}

#[tokio::test]
async fn a_redis_that_loads_its_data_is_waited_for() {
    let mut redis = Redis::start(&["--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024"]);
    redis.command(&["DEBUG", "POPULATE", "10000", "key", "64"]);
    redis.command(&["SAVE"]);
    let kept = Kept::to(&redis).await;
    let restarted = tokio::task::spawn_blocking(move || {
        redis.restart(true);
        redis
    });
    kept.becomes(false).await;
    refused_because(&kept, "LOADING").await;
    kept.becomes(true).await;
    let _redis = restarted.await.unwrap();
    assert_eq!(kept.count().await, Ok(1));
}

#[tokio::test]
async fn something_else_than_redis_is_no_redis() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let kept = Kept::to_url(&format!("redis://{address}"));
    refused_because(&kept, "RESP").await;
    server.abort();

    // TLS to something that is not TLS is an error like any other.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let redis = Redis::start(&[]);
    let kept = Kept::to_url(&format!("rediss://127.0.0.1:{}", redis.port));
    eventually("it is told", || !unavailable(kept.node.connection(1)).contains("has not connected to Redis yet")).await;
    assert!(!kept.task.is_finished());
}
