//! Failures have a message with the reason and advice, and an exit code.

use crate::{
    redis::Redis,
    support::{Process, Server, await_that, fencepost},
};
use nix::sys::signal::Signal;

#[test]
fn a_held_lock_is_refused_with_its_holder_and_time_left() {
    let server = Server::start();
    let taken = server.run(&["acquire", "a", "--ttl", "1m", "--holder", "worker-7"]).expect(0);
    let message = format!("a is held by worker-7 (token {}) for another ", taken.field("token"));
    let refused = server.run(&["acquire", "a"]).expect(75).says(&message);
    assert!(refused.out.is_empty() && !refused.err.contains(taken.field("lease id")), "{refused:?}");
    server.run(&["acquire", "a", "--wait", "200ms"]).expect(75).says("timed out after 200 ms: a is held by worker-7");
    server.run(&["run", "a", "--", "false"]).expect(75).says(&message);
    server.run(&["run", "a", "--wait", "200ms", "--", "false"]).expect(75).says("timed out after 200 ms");
}

#[test]
fn an_invalid_request_is_refused_with_the_name_of_the_field() {
    let server = Server::start();
    server.run(&["acquire", ""]).expect(64).says("lock_name");
    server.run(&["acquire", "a", "--ttl", "48h"]).expect(64).says("ttl");
    server.run(&["acquire", "a", "--request-id", "7"]).expect(64).says("--request-id");
    server.run(&["run", "a", "--ttl", "48h", "--", "true"]).expect(64).says("ttl");
    server.run(&["run", "a", "--request-id", "7", "--", "true"]).expect(64).says("--request-id");
    server.run(&["check-token", "a", "0"]).expect(64).says("fencing_token");
    server.run(&["force-release", "a", "--token", "0", "--reason", "why"]).expect(64).says("expected_token");
}

#[test]
fn an_invalid_command_line_is_explained() {
    let run = |arguments: &[&str]| Process::start(&mut fencepost(arguments)).ended();
    run(&["acquire", "a", "--ttl", "30"]).expect(2).says("must be a duration with a unit");
    run(&["release", "a"]).expect(2).says("--lease-id");
    run(&["force-release", "a", "--token", "7"]).expect(2).says("--reason");
    run(&["get", "a", "--server", "not a server"]).expect(64).says("invalid server address");
}

#[test]
fn an_unknown_lease_cannot_be_renewed_or_released() {
    let server = Server::start();
    let id = "0ea85d06-5d6b-4f61-8a5f-1f5e5c1c0b11";
    server.run(&["release", "a", "--lease-id", id]).expect(1).says("is not known to the server");
    server.run(&["renew", "a", "--lease-id", id]).expect(1).says("stop the work");
    // Nor does the server know it while the lock is held.
    let taken = server.run(&["acquire", "a", "--ttl", "1m"]).expect(0);
    let held = format!("the lock is now held under token {}", taken.field("token"));
    for command in ["release", "renew"] {
        let refused = server.run(&[command, "a", "--lease-id", id]).expect(1);
        refused.says("is not known to the server: it ended a while ago, or never existed").says(&held);
    }
}

#[test]
fn the_message_for_an_unreachable_server_gives_advice() {
    let url = format!("http://127.0.0.1:{}", Redis::free_port());
    for command in [&["get", "a"][..], &["acquire", "a"], &["ls"], &["run", "a", "--wait", "1h", "--", "true"]] {
        let mut arguments = command.to_vec();
        // Options must precede the two dashes.
        let end = command.iter().position(|word| *word == "--").unwrap_or(command.len());
        arguments.splice(end..end, ["--server", url.as_str()]);
        let failed = Process::start(&mut fencepost(&arguments)).ended().expect(69);
        failed.says(&format!("cannot reach the server at {url}")).says("fencepost serve");
    }
}

#[test]
fn an_interrupted_wait_leaves_the_queue() {
    let server = Server::start();
    server.run(&["acquire", "a", "--ttl", "1m"]).expect(0);
    for command in [&["acquire", "a", "--wait", "1m"][..], &["run", "a", "--wait", "1m", "--", "true"]] {
        let waiting = server.spawn(command);
        await_that("a waiter", || server.waiters("a") == 1);
        waiting.signal(Signal::SIGTERM);
        waiting.ended().expect(128 + 15);
        await_that("no waiter", || server.waiters("a") == 0);
    }
}
