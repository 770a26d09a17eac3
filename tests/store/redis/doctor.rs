//! `fencepost doctor` on real Redis servers, and its exit status.

use crate::{
    redis_server::Redis,
    server_on, serving, start_on,
    support::{Lock, PATIENCE, Server, acquire_request, assert_refused, until},
};
use fencepost::testing::config::StoreUrl;
use serde_json::Value;
use std::{
    process::{Command, Output, Stdio},
    time::Duration,
};
use tonic::Code;

const TTL: Duration = Duration::from_secs(30);

const ALWAYS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

fn doctor(url: &str, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.args(["doctor", "--store", url]).args(more).env_remove("FENCEPOST_STORE").output().unwrap()
}

/// The report, with this exit status.
#[track_caller]
fn report(url: &str, code: i32) -> Value {
    let output = doctor(url, &["--json"]);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[track_caller]
fn assert_found(report: &Value, check: &str, severity: &str, words: &str) {
    let findings = report["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["check"] == check).unwrap();
    assert_eq!(finding["severity"], severity, "{finding}");
    assert!(finding.to_string().contains(words), "{words:?} is not in {finding}");
}

#[test]
fn a_healthy_redis_is_reported_ok_and_is_not_changed() {
    let redis = Redis::start(&ALWAYS);
    let found = report(&redis.url(), 0);
    assert_eq!(found["severity"], "ok", "{found}");
    assert_eq!(found["store"], redis.url());
    assert_found(&found, "layout", "ok", "no locks yet");
    assert_eq!(redis.command(&["DBSIZE"]).text(), "0");
    let text = String::from_utf8(doctor(&redis.url(), &[]).stdout).unwrap();
    assert!(text.lines().all(|line| line.starts_with("ok ")) && text.contains("noeviction"), "{text}");
}

#[test]
fn an_evicting_redis_is_an_error() {
    let redis = Redis::start(&ALWAYS);
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    assert_found(&report(&redis.url(), 1), "eviction", "error", "noeviction");
    let text = String::from_utf8(doctor(&redis.url(), &[]).stdout).unwrap();
    assert!(text.contains("ERROR    eviction     maxmemory-policy is allkeys-lru"), "{text}");
}

#[test]
fn missing_persistence_is_a_warning() {
    let redis = Redis::start(&[]);
    assert_found(
        &report(&redis.url(), 0),
        "persistence",
        "warning",
        "forget everything. Running servers write the data back",
    );
    for (setting, value, words) in [
        ("save", "3600 1", "after the last snapshot"),
        ("appendonly", "yes", "everysec"),
        ("appendfsync", "no", "about 30 s"),
    ] {
        redis.command(&["CONFIG", "SET", setting, value]);
        assert_found(&report(&redis.url(), 0), "persistence", "warning", words);
    }
    redis.command(&["CONFIG", "SET", "appendfsync", "always"]);
    assert_found(&report(&redis.url(), 0), "persistence", "ok", "forgets anything");
}

#[test]
fn a_replica_is_an_error_and_a_primary_with_replicas_is_a_warning() {
    let (redis, replica) = (Redis::start(&ALWAYS), Redis::start(&ALWAYS));
    replica.command(&["REPLICAOF", "127.0.0.1", &redis.port.to_string()]);
    assert_found(&report(&replica.url(), 1), "role", "error", &redis.port.to_string());
    while replica.info("replication", "master_link_status") != "up" {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_found(&report(&redis.url(), 0), "replicas", "warning", "min-replicas-to-write is off");
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "2"]);
    assert_found(&report(&redis.url(), 1), "replicas", "error", "refuses writes");
}

#[tokio::test]
async fn a_cluster_node_is_refused_with_the_remedy() {
    let redis = Redis::start_cluster(&[]);
    // All slots are on one node, so that scripts would run.
    redis.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    until(|| async { redis.command(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok") }).await;
    let server = start_on(&redis).await;
    until(|| async {
        let refused = server.client().acquire(acquire_request("a", TTL)).await;
        let status = assert_refused(refused, Code::Unavailable, "STORE_UNAVAILABLE");
        status.message().contains("cluster mode") && status.message().contains("write redis+cluster://")
    })
    .await;
    serving(&server, false).await;
    assert_found(&report(&redis.url(), 1), "cluster", "error", "does not connect");
    assert_eq!(redis.command(&["DBSIZE"]).text(), "0");
}

#[test]
fn an_unreachable_redis_has_an_exit_status_of_its_own() {
    let unreachable = format!("redis://127.0.0.1:{}", Redis::free_port());
    let output = doctor(&unreachable, &["--json"]);
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing listens there"), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["error"].as_str().unwrap().contains("nothing listens there"), "{found}");
    assert_eq!((&found["severity"], found["findings"].as_array().map(Vec::len)), (&"error".into(), Some(0)));
    let redis = Redis::start(&["--requirepass", "s3cret"]);
    report(&redis.url(), 0);
    for url in [redis.url().replace("s3cret", "other-pass"), redis.url().replace(":s3cret@", "")] {
        let output = doctor(&url, &[]);
        assert_eq!(output.status.code(), Some(69), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains("password") && !stderr.contains("other-pass"), "{stderr}");
    }
    let output = doctor("localhost:s3cret", &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("s3cret"), "{output:?}");
}

#[test]
fn foreign_data_is_an_error() {
    let redis = Redis::start(&ALWAYS);
    redis.command(&["HSET", "fp:meta", "buckets", "1024", "layout", "6"]);
    assert_found(&report(&redis.url(), 1), "layout", "error", "earlier version");
    redis.command(&["DEL", "fp:meta"]);
    redis.command(&["HSET", "{fp}:q0:h", "not", "ours"]);
    assert_found(&report(&redis.url(), 1), "keys", "error", "WRONGTYPE");
}

/// Another prefix is refused, so that an operator has to know it.
#[tokio::test]
async fn the_classic_prefix_of_a_store_is_shown_if_it_has_one() {
    let has_one =
        |report: &Value| report["findings"].as_array().unwrap().iter().any(|finding| finding["check"] == "classic");
    let (redis, other) = (Redis::start(&ALWAYS), Redis::start(&ALWAYS));
    assert!(!has_one(&report(&redis.url(), 0)));
    let _sharing = Server::start_with(|config| {
        config.store = StoreUrl::Redis(vec![redis.url()]);
        config.classic_prefix = "lock:".to_owned();
    })
    .await;
    until(|| async { has_one(&report(&redis.url(), 0)) }).await;
    assert_found(&report(&redis.url(), 0), "classic", "ok", "--classic-prefix \\\"lock:\\\"");
    let _server = server_on(&other).await;
    assert_eq!(other.command(&["GET", "{fp}:classic"]).text(), "");
    assert!(!has_one(&report(&other.url(), 0)), "none is fixed there");
    other.command(&["DEL", "{fp}:classic"]);
    other.command(&["HSET", "{fp}:classic", "not", "ours"]);
    assert_found(&report(&other.url(), 1), "keys", "error", "WRONGTYPE");
}

#[test]
fn settings_that_cannot_be_read_are_reported_as_unchecked() {
    let redis = Redis::start(&ALWAYS);
    let url = redis.url().replace("redis://", "redis://fp:pw@");
    redis.command(&["ACL", "SETUSER", "fp", "on", ">pw", "~*", "&*", "+@all", "-config"]);
    let found = report(&url, 0);
    assert_found(&found, "config", "warning", "CONFIG GET is not allowed");
    assert_found(&found, "persistence", "warning", "appendfsync could not be checked");
    assert_found(&found, "eviction", "ok", "noeviction");
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]);
    assert_found(&report(&url, 1), "eviction", "error", "allkeys-lfu");
    redis.command(&["ACL", "SETUSER", "fp", "resetchannels"]);
    assert_found(&report(&url, 1), "channels", "warning", "messages may not be sent");
    redis.command(&["ACL", "SETUSER", "fp", "-info", "-@scripting"]);
    let found = report(&url, 1);
    assert_found(&found, "info", "error", "+info");
    assert_found(&found, "scripts", "error", "+@scripting");
}

#[tokio::test]
async fn a_server_refuses_an_evicting_redis_until_it_no_longer_evicts() {
    let redis = Redis::start(&["--maxmemory-policy", "allkeys-lru"]);
    let server = start_on(&redis).await;
    // The reason is the eviction, and not a missing connection.
    until(|| async {
        let refused = server.client().acquire(acquire_request("a", TTL)).await;
        let status = assert_refused(refused, Code::Unavailable, "STORE_UNAVAILABLE");
        status.message().contains("maxmemory-policy noeviction") && status.message().contains("--allow-eviction")
    })
    .await;
    serving(&server, false).await;
    assert_eq!(redis.command(&["DBSIZE"]).text(), "0", "the server wrote nothing");
    let allowed = Server::start_with(|config| {
        config.store = StoreUrl::Redis(vec![redis.url()]);
        config.allow_eviction = true;
    })
    .await;
    serving(&allowed, true).await;
    allowed.client().acquire_lease(acquire_request("b", TTL)).await;
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    serving(&server, true).await;
    server.client().acquire_lease(acquire_request("a", TTL)).await;
}

/// It checks every ten seconds, because settings can be changed without a restart.
#[tokio::test]
async fn a_server_notices_settings_that_change_while_it_serves() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    server.client().acquire_lease(acquire_request("a", Duration::from_secs(60))).await;
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    until(|| async {
        let asked = server.client().acquire(acquire_request("b", Duration::from_secs(60))).await;
        asked.is_err_and(|why| why.code() == Code::Unavailable && why.message().contains("--allow-eviction"))
    })
    .await;
    serving(&server, false).await;
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    serving(&server, true).await;
    redis.command(&["FLUSHALL"]);
    until(|| async { redis.command(&["EXISTS", "{fp}:node"]).text() == "1" }).await;
    redis.command(&["HSET", "fp:meta", "buckets", "1024", "layout", "6"]);
    serving(&server, false).await;
}

#[tokio::test]
async fn a_server_reads_info_if_config_is_forbidden() {
    let redis = Redis::start(&["--maxmemory-policy", "allkeys-lru"]);
    redis.command(&["ACL", "SETUSER", "fp", "on", ">pw", "~*", "&*", "+@all", "-config"]);
    let url = redis.url().replace("redis://", "redis://fp:pw@");
    let server = Server::start_with(|config| config.store = StoreUrl::Redis(vec![url])).await;
    until(|| async {
        let refused = server.client().acquire(acquire_request("a", TTL)).await;
        assert_refused(refused, Code::Unavailable, "STORE_UNAVAILABLE").message().contains("allkeys-lru")
    })
    .await;
    serving(&server, false).await;
}

/// The log of `serve` on this Redis, up to a line with these words.
async fn log_until(redis: &Redis, flags: &[&str], words: &str) -> String {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "none", "--log-format", "json"]);
    command.args(["--store", &redis.url()]).args(flags);
    let mut server = command.stdin(Stdio::null()).stderr(log.reopen().unwrap()).spawn().unwrap();
    let read = || std::fs::read_to_string(log.path()).unwrap();
    let found = tokio::time::timeout(PATIENCE, until(|| async { read().contains(words) })).await;
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(found.is_ok(), "{words:?} is not in {}", read());
    read()
}

#[tokio::test]
async fn the_log_has_the_findings_of_doctor() {
    let redis = Redis::start(&["--maxmemory-policy", "allkeys-lru"]);
    let refused = log_until(&redis, &[], "forget everything").await;
    let line = refused.lines().find(|line| line.contains("allkeys-lru")).unwrap();
    assert!(line.contains("ERROR") && line.contains("--allow-eviction") && line.contains("noeviction"), "{line}");
    let allowed = log_until(&redis, &["--allow-eviction"], "forget everything").await;
    let line = allowed.lines().find(|line| line.contains("allkeys-lru")).unwrap();
    assert!(line.contains("WARN"), "{line}");
}

/// Its locks stay as they are, for the servers of that version.
#[tokio::test]
async fn a_redis_with_locks_of_an_earlier_version_is_refused_with_the_remedy() {
    let redis = Redis::start(&ALWAYS);
    redis.command(&["HSET", "fp:meta", "buckets", "1024", "layout", "6"]);
    let log = log_until(&redis, &["--allow-eviction"], "an earlier version of Fencepost").await;
    let line = log.lines().find(|line| line.contains("an earlier version")).unwrap();
    for words in ["ERROR", "fp:meta", "cannot read these locks", "drain all servers", "delete the keys", "tokens"] {
        assert!(line.contains(words), "{words:?} is not in {line}");
    }
    let server = start_on(&redis).await;
    until(|| async {
        let refused = server.client().acquire(acquire_request("a", TTL)).await;
        let status = assert_refused(refused, Code::Unavailable, "STORE_UNAVAILABLE");
        status.message().contains("an earlier version") && status.message().contains("drain all servers")
    })
    .await;
    // Longer than an empty Redis waits for its first store.
    tokio::time::sleep(Duration::from_secs(4)).await;
    serving(&server, false).await;
    assert_eq!(redis.command(&["KEYS", "*"]).text(), "fp:meta");
    redis.command(&["DEL", "fp:meta"]);
    serving(&server, true).await;
    server.client().acquire_lease(acquire_request("a", TTL)).await;
}
