//! `run` when the lease is in danger: nothing of the command runs once the lock can have passed on.
#![allow(clippy::disallowed_methods, reason = "whether it was in time is what is tested")]

use crate::{
    marks::{Marks, is_gone},
    support::{Process, Server, await_that},
};
use nix::sys::signal::Signal;
use std::{
    io::{Write, pipe},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

/// The end of the command is planned for 11 % of this before the end of the lease: more than a second.
const TTL: Duration = Duration::from_secs(10);

/// A command that will not stop when asked, and a child of it that will not either; both leave marks all the time.
fn stubborn(marks: &Marks) -> String {
    let path = marks.path();
    let work = |name: &str| format!("while :; do echo {name} >> {path}; sleep 0.01; done");
    format!(
        "trap '' TERM HUP INT; echo parent_pid=$$ >> {path}; ({}) & echo child_pid=$! >> {path}; {}",
        work("child"),
        work("parent")
    )
}

fn start(server: &Server, marks: &Marks) -> Process {
    let ttl = format!("{}ms", TTL.as_millis());
    let running = server.spawn(&["run", "a", "--ttl", &ttl, "--", "sh", "-c", &stubborn(marks)]);
    marks.await_mark("child");
    marks.await_mark("parent");
    running
}

fn all_gone(marks: &Marks) -> bool {
    is_gone(&marks.await_value("parent_pid")) && is_gone(&marks.await_value("child_pid"))
}

#[test]
fn a_lease_taken_back_means_the_end_of_the_whole_group() {
    let (server, marks) = (Server::start(), Marks::new());
    let running = start(&server, &marks);
    let token =
        server.run(&["get", "a", "--json"]).json()["lock"]["holders"][0]["fencingToken"].as_str().unwrap().to_owned();
    server.run(&["force-release", "a", "--token", &token, "--reason", "it is stuck"]).expect(0);
    running.ended().expect(70).says("revoked").says("killed the command");
    assert!(all_gone(&marks));
}

#[test]
fn a_server_that_dies_means_the_end_before_the_lease_can_pass_on() {
    let (server, marks) = (Server::start(), Marks::new());
    let running = start(&server, &marks);
    let died = Instant::now();
    server.process.signal(Signal::SIGKILL);
    await_that("the command is gone", || all_gone(&marks));
    // No renewal came after this, so the lease ends at the latest one TTL later.
    assert!(died.elapsed() < TTL, "{:?}", died.elapsed());
    running.ended().expect(70).says("is not being renewed").says("killed the command");
}

#[test]
fn a_server_that_stands_still_grants_nobody_while_the_command_runs() {
    let (server, marks) = (Server::start(), Marks::new());
    let running = start(&server, &marks);
    let next = format!("echo next >> {}", marks.path());
    let waiter = server.spawn(&["run", "a", "--wait", "1m", "--", "sh", "-c", &next]);
    await_that("a waiter", || server.waiters("a") == 1);
    let stopped = Instant::now();
    server.process.signal(Signal::SIGSTOP);
    await_that("the command is gone", || all_gone(&marks));
    assert!(stopped.elapsed() < TTL, "{:?}", stopped.elapsed());
    server.process.signal(Signal::SIGCONT);
    running.ended().expect(70);
    waiter.ended().expect(0);
    assert_eq!(marks.read().last().unwrap(), "next");
}

#[test]
fn a_command_that_stops_when_asked_is_not_killed() {
    let (server, marks) = (Server::start(), Marks::new());
    let script =
        format!("trap 'echo orderly >> {0}; exit 9' TERM; echo ready; while :; do sleep 0.02; done", marks.path());
    let running = server.spawn(&["run", "a", "--ttl", "8s", "--", "sh", "-c", &script]);
    assert_eq!(running.line(), "ready");
    server.process.signal(Signal::SIGKILL);
    let ended = running.ended().expect(70).says("stopping the command");
    assert!(!ended.err.contains("killed"), "{ended:?}");
    assert_eq!(marks.read(), ["orderly"]);
}

#[test]
fn run_that_was_paused_past_its_lease_kills_as_soon_as_it_wakes() {
    let (server, marks) = (Server::start(), Marks::new());
    let running = start(&server, &marks);
    running.signal(Signal::SIGSTOP);
    await_that("the lease has expired", || server.is_free("a"));
    running.signal(Signal::SIGCONT);
    running.ended().expect(70).says("killed the command");
    assert!(all_gone(&marks));
}

/// A terminal that was stopped with Ctrl-S, or a pipe that nobody reads: what is said of the danger must not keep from
/// averting it.
#[test]
fn a_standard_error_that_stands_still_holds_nothing_up() {
    let (server, marks) = (Server::start(), Marks::new());
    let (unread, full) = pipe().unwrap();
    let mut filling = full.try_clone().unwrap();
    thread::spawn(move || while filling.write_all(b"full").is_ok() {});
    let ttl = format!("{}ms", TTL.as_millis());
    let mut command = server.command(&["run", "a", "--ttl", &ttl, "--", "sh", "-c", &stubborn(&marks)]);
    let mut running = command.stdin(Stdio::null()).stderr(full).spawn().unwrap();
    marks.await_mark("child");
    marks.await_mark("parent");
    let died = Instant::now();
    server.process.signal(Signal::SIGKILL);
    await_that("the command is gone", || all_gone(&marks));
    assert!(died.elapsed() < TTL, "{:?}", died.elapsed());
    assert_eq!(running.wait().unwrap().code(), Some(70));
    drop(unread);
}
