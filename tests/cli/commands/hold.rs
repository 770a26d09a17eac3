//! `hold` keeps a lock until a signal.

use crate::support::{Process, Server, await_that};
use nix::sys::signal::Signal;

/// The token in the output of `hold`.
fn token(holding: &Process) -> String {
    let line = holding.line();
    let token = line.strip_prefix("holding a (token ").and_then(|rest| rest.strip_suffix(')'));
    token.unwrap_or_else(|| panic!("{line}")).to_owned()
}

#[test]
fn the_lease_is_renewed_until_a_signal() {
    let server = Server::start();
    let holding = server.spawn(&["hold", "a", "--ttl", "5s", "--holder", "worker-7"]);
    let token = token(&holding);
    // Twice the TTL. Each renewal may be more than a second late.
    let waited = server.run(&["acquire", "a", "--wait", "10s"]).expect(75);
    waited.says(&format!("timed out after 10 s: a is held by worker-7 (token {token})"));
    holding.signal(Signal::SIGINT);
    assert_eq!(holding.ended().expect(0).err, "");
}

#[test]
fn a_signal_releases_the_lock() {
    let server = Server::start();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let holding = server.spawn(&["hold", "a"]);
        token(&holding);
        holding.signal(signal);
        assert_eq!(holding.ended().expect(0).err, "");
        let lock = server.run(&["get", "a", "--json"]).json();
        assert_eq!(lock["lock"]["previousEnd"], "LEASE_END_RELEASED");
    }
}

#[test]
fn a_lost_lock_ends_hold_at_once() {
    let server = Server::start();
    let holding = server.spawn(&["hold", "a"]);
    let token = token(&holding);
    server.run(&["force-release", "a", "--token", &token, "--reason", "it is stuck"]).expect(0);
    holding.ended().expect(70).says(&format!("a (token {token}) is lost: the lease was revoked: stop the work"));
}

#[test]
fn a_held_lock_is_not_held_twice() {
    let server = Server::start();
    let holding = server.spawn(&["hold", "a"]);
    holding.line();
    server.run(&["hold", "a"]).expect(75).says("a is held by");
    let waiting = server.spawn(&["hold", "a", "--wait", "1m"]);
    await_that("a waiter", || server.waiters("a") == 1);
    waiting.signal(Signal::SIGTERM);
    waiting.ended().expect(128 + 15);
    await_that("no waiter", || server.waiters("a") == 0);
}
