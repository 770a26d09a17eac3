//! What a lock cannot be asked for because of others that share its store: a server of an earlier version, or clients
//! that use Redis directly.

use crate::{
    old_server::OldServer,
    redis::Redis,
    support::{Ended, Server, await_that},
};

/// Options that not all can understand, and what a refusal calls each.
const OPTIONS: [(&[&str], &str); 4] = [
    (&["--shared"], "SHARED"),
    (&["--limit", "2"], "SEMAPHORE"),
    (&["--min-hold", "1m"], "min_hold"),
    (&["--lock-delay", "1m"], "lock_delay"),
];

/// A server on this Redis that is ready.
fn start(redis: &Redis, flags: &[&str]) -> Server {
    let server = Server::start_with(&[&["--store", &redis.url()], flags].concat());
    await_that("the server is ready", || server.run(&["status"]).code == 0);
    server
}

/// Asks for a lock by each command that acquires one.
fn ask(server: &Server, options: &[&str]) -> [Ended; 3] {
    let with = |words: &[&str], command: &[&str]| server.run(&[words, options, command].concat());
    [with(&["acquire", "a"], &[]), with(&["hold", "a"], &[]), with(&["run", "a"], &["--", "true"])]
}

#[test]
fn what_a_server_of_an_earlier_version_does_not_know_is_refused() {
    let redis = Redis::start(&[]);
    let server = start(&redis, &[]);
    let lease = server.run(&["acquire", "held", "--ttl", "10m"]).expect(0);
    let old = OldServer::start(&redis);
    await_that("the old server is seen", || server.run(&["acquire", "seen", "--shared", "--ttl", "1s"]).code == 69);
    for (options, field) in OPTIONS.into_iter().chain([(&["--max-hold", "1m"][..], "max_hold")]) {
        for refused in ask(&server, options) {
            let refused =
                refused.expect(69).says("1 of the 2 servers of this store are of a version that does not know");
            refused.says(field).says("upgrade all servers, or leave ");
        }
    }
    let (id, token) = (["--lease-id", lease.field("lease id")], ["--token", lease.field("token")]);
    server.run(&[&["convert", "held", "shared"], &id[..], &token].concat()).expect(69).says("does not know Convert");
    server.run(&[&["describe", "held", "k=v"], &id[..]].concat()).expect(69).says("does not know Describe");
    server.run(&["acquire", "plain"]).expect(0);
    drop(old);
    await_that("the old server is gone", || server.run(&["acquire", "a", "--shared"]).code == 0);
}

#[test]
fn what_classic_clients_do_not_see_is_refused() {
    let redis = Redis::start(&[]);
    let server = start(&redis, &["--classic-prefix", "lock:"]);
    for (options, field) in OPTIONS {
        for refused in ask(&server, options) {
            refused
                .expect(69)
                .says("classic clients share this lock (--classic-prefix)")
                .says(field)
                .says("leave them out");
        }
    }
    let lease = server.run(&["acquire", "a"]).expect(0);
    let (id, token) = (lease.field("lease id"), lease.field("token"));
    let refused = server.run(&["convert", "a", "shared", "--lease-id", id, "--token", token]).expect(69);
    refused.says("classic clients share this lock (--classic-prefix)");
    server.run(&["release", "a", "--lease-id", id]).expect(0);
}
