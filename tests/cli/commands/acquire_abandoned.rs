//! An `acquire` whose answer nobody gets leaves neither a place in the queue nor a lease behind.

use crate::support::{Process, Server, await_that};
use nix::sys::signal::Signal;
use std::{fs::OpenOptions, process::Command};

#[test]
fn each_signal_that_ends_a_wait_withdraws_the_request() {
    let server = Server::start();
    server.run(&["acquire", "a", "--ttl", "10m"]).expect(0);
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
        let waiting = server.spawn(&["acquire", "a", "--wait", "1m"]);
        await_that("a waiter", || server.waiters("a") == 1);
        waiting.signal(signal);
        waiting.ended().expect(128 + signal as i32);
        // Not after the time for which the server keeps the place of a call that only broke.
        assert_eq!(server.waiters("a"), 0, "{signal}");
    }
}

#[test]
fn a_closed_terminal_that_the_caller_ignores_ends_no_wait() {
    let server = Server::start();
    let held = server.run(&["acquire", "a", "--ttl", "10m"]).expect(0);
    let mut command = Command::new("env");
    command.args(["--ignore-signal=HUP", env!("CARGO_BIN_EXE_fencepost"), "acquire", "a", "--wait", "1m"]);
    let waiting = Process::start(command.env("FENCEPOST_SERVER", &server.url));
    await_that("a waiter", || server.waiters("a") == 1);
    waiting.signal(Signal::SIGHUP);
    server.run(&["release", "a", "--lease-id", held.field("lease id")]).expect(0);
    waiting.ended().expect(0);
}

#[test]
fn a_lease_whose_answer_cannot_be_written_is_released() {
    let server = Server::start();
    for options in [&[][..], &["--json"], &["--export"]] {
        let words = [&["acquire", "a"], options].concat();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = server.command(&words).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(74) && said.contains("cannot write the output"), "{ended:?}");
        assert!(options.contains(&"--export") || said.contains("the lock was released"), "{said}");
        assert!(server.is_free("a"), "{options:?}");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = server.command(&["acquire", "a"]).stdout(writer).output().unwrap();
    assert!(!ended.status.success() && server.is_free("a"), "{ended:?}");
}
