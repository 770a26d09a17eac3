//! `run` when the lease cannot be renewed: no process of the command runs once another holder can have the lock.
#![allow(clippy::disallowed_methods, reason = "the tests measure time")]

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

/// The command is killed 11 % of the TTL before the lease expires at the server: more than a second.
const TTL: Duration = Duration::from_secs(10);

/// A command that ignores SIGTERM, with a child that ignores it too. Both append marks all the time.
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
fn a_revoked_lease_kills_the_whole_group() {
    let (server, marks) = (Server::start(), Marks::new());
    let running = start(&server, &marks);
    let token =
        server.run(&["get", "a", "--json"]).json()["lock"]["holders"][0]["fencingToken"].as_str().unwrap().to_owned();
    server.run(&["force-release", "a", "--token", &token, "--reason", "it is stuck"]).expect(0);
    running.ended().expect(70).says("revoked").says("killed the command");
    assert!(all_gone(&marks));
}

#[test]
fn after_the_death_of_the_server_the_command_is_killed_before_the_lease_expires() {
    let (server, marks) = (Server::start(), Marks::new());
    let running = start(&server, &marks);
    let died = Instant::now();
    server.process.signal(Signal::SIGKILL);
    await_that("the command is gone", || all_gone(&marks));
    // The last renewal was before `died`, so the lease expires within a TTL after it.
    assert!(died.elapsed() < TTL, "{:?}", died.elapsed());
    running.ended().expect(70).says("is not being renewed").says("killed the command");
}

#[test]
fn a_paused_server_grants_the_lock_only_after_the_command_is_gone() {
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
fn a_command_that_exits_on_sigterm_is_not_killed() {
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
fn run_paused_beyond_its_lease_kills_the_command_when_it_resumes() {
    let (server, marks) = (Server::start(), Marks::new());
    let running = start(&server, &marks);
    running.signal(Signal::SIGSTOP);
    await_that("the lease has expired", || server.is_free("a"));
    running.signal(Signal::SIGCONT);
    running.ended().expect(70).says("killed the command");
    assert!(all_gone(&marks));
}

/// Messages to a blocked stderr (a terminal stopped with Ctrl-S, a pipe that nobody reads) must not delay the kill.
#[test]
fn a_blocked_stderr_does_not_delay_the_kill() {
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
