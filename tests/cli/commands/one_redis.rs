//! What operators are told about one Redis: it is no cluster, and there is no majority of one. A Redis that refuses has
//! answered.

use crate::{
    redis::Redis,
    support::{Ended, Process, Server, await_that, fencepost},
};

fn run(words: &[&str]) -> Ended {
    Process::start(&mut fencepost(words)).ended()
}

/// Words about several Redis servers, and one that is not true of a Redis that refuses.
#[track_caller]
fn assert_plain(text: &str, words: &[&str]) {
    let text = text.to_lowercase();
    for word in words {
        assert!(!text.contains(word), "{word:?} is in {text}");
    }
}

const OF_SEVERAL: [&str; 2] = ["cluster", "majority"];

#[test]
fn a_redis_that_refuses_the_password_has_answered() {
    let redis = Redis::start(&["--requirepass", "s3cret"]);
    let words = [&OF_SEVERAL[..], &["no answer", "did not answer", "not there"]].concat();
    for (url, says) in [
        (format!("redis://127.0.0.1:{}", redis.port), "Redis answers, but requires a password"),
        (
            format!("redis://:wrong@127.0.0.1:{}", redis.port),
            "Redis answers, and does not accept the user or the password",
        ),
    ] {
        for command in [&["quorum", "create"][..], &["quorum", "status"], &["doctor"]] {
            let ended = run(&[command, &["--store", &url]].concat()).expect(69);
            assert_plain(&ended.err, &words);
            ended.says(says).says("redis://user:password@host:port in --store or FENCEPOST_STORE");
        }
        let server = Server::start_with(&["--store", &url]);
        await_that("the store is looked for", || server.log().contains("the store cannot be used yet"));
        server.run(&["acquire", "a"]).expect(69).says(says);
        let log = server.log();
        assert!(log.contains(says), "{log}");
        assert_plain(&log, &words);
    }
}

#[test]
fn one_redis_is_no_cluster_and_no_majority() {
    let mut redis = Redis::start(&[]);
    let url = redis.url();
    let made = run(&["quorum", "create", "--store", &url]).expect(0).out;
    let server = Server::start_with(&["--store", &url]);
    await_that("the server is ready", || server.run(&["status"]).code == 0);
    let id = server.run(&["status", "--json"]).json()["servers"][0]["store_id"].as_str().unwrap().to_owned();
    let status = run(&["quorum", "status", "--store", &url]).expect(0).out;
    let doctor = run(&["doctor", "--store", &url]).expect(0).out;
    assert!(doctor.contains(&format!("locks of this version, store {id}\n")), "{doctor}");
    for told in [&made, &status] {
        assert!(told.starts_with(&format!("store {id}")), "{told}");
    }
    assert!(status.ends_with("has the locks of all partitions\n"), "{status}");
    redis.pause();
    let stands_still = server.run(&["acquire", "a", "--wait", "1ms"]).expect(69).err;
    redis.kill();
    let away = server.run(&["acquire", "b"]).expect(69).err;
    let listed = server.run(&["ls"]).expect(69).err;
    let unknown = run(&["quorum", "status", "--store", &url]).expect(69).err;
    assert!(unknown.contains("nothing listens there") && unknown.contains("this Redis"), "{unknown}");
    redis.restart(false);
    await_that("the server is ready again", || server.run(&["status"]).code == 0);
    for told in [made, status, doctor, stands_still, away, listed, unknown, server.log()] {
        assert_plain(&told, &OF_SEVERAL);
    }
}

#[test]
fn the_password_may_be_in_a_file() {
    let redis = Redis::start(&[]);
    redis.command(&["ACL", "SETUSER", "me", "on", ">s3cret", "~*", "&*", "+@all"]);
    redis.command(&["ACL", "SETUSER", "default", "off"]);
    let (folder, url) = (tempfile::tempdir().unwrap(), format!("redis://127.0.0.1:{}", redis.port));
    let file = folder.path().join("password");
    let path = file.to_str().unwrap();
    let login = ["--store", &url, "--store-user", "me", "--store-password-file", path];
    run(&[&["serve", "--listen", "127.0.0.1:0", "--admin-listen", "none"], &login[..]].concat())
        .expect(78)
        .says("store_password_file")
        .says("cannot be read");
    run(&[&["doctor"], &login[..]].concat()).expect(78).says("--store-password-file").says("cannot be read");
    std::fs::write(&file, "s3cret\n").unwrap();
    for command in [&["quorum", "create"][..], &["quorum", "status"], &["doctor"]] {
        let ended = run(&[command, &login[..]].concat()).expect(0);
        assert!(!ended.out.contains("s3cret") && !ended.err.contains("s3cret"));
    }
    let server = Server::start_with(&login);
    await_that("the server is ready", || server.run(&["status"]).code == 0);
    server.run(&["acquire", "a"]).expect(0);
    assert!(server.log().contains(&format!("redis://me:***@127.0.0.1:{}", redis.port)), "{}", server.log());
    let alone = run(&["doctor", "--store", &url, "--store-user", "me"]).expect(78);
    alone.says("--store-user needs the file with its password");
    let beside = format!("redis://me:s3cret@127.0.0.1:{}", redis.port);
    let beside = run(&["doctor", "--store", &beside, "--store-password-file", path]).expect(78);
    beside.says("is given beside a password in the URL");
}

/// Locks have no TTL in Redis, and classic ones have.
#[test]
fn a_policy_that_removes_keys_with_a_ttl_is_fit_for_all_but_classic_locks() {
    let redis = Redis::start(&["--maxmemory-policy", "volatile-lru"]);
    let url = redis.url();
    let server = Server::start_with(&["--store", &url]);
    await_that("the server is ready", || server.run(&["status"]).code == 0);
    let doctor = run(&["doctor", "--store", &url]).expect(0).out;
    assert!(doctor.contains("ok       eviction     maxmemory-policy is volatile-lru"), "{doctor}");
    drop(server);
    redis.command(&["FLUSHALL"]);
    let server = Server::start_with(&["--store", &url, "--classic-prefix", "lock:"]);
    await_that("it is refused", || server.log().contains("redis may evict locks"));
    assert_ne!(server.run(&["status"]).code, 0, "it grants nothing before");
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    await_that("the server goes on", || server.run(&["status"]).code == 0);
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    let doctor = run(&["doctor", "--store", &url]).expect(1).out;
    assert!(doctor.contains("volatile-ttl, and locks are shared with classic clients"), "{doctor}");
}
