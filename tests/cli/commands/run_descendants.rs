//! `run` and processes that left the process group of its command: in a group or a session of their own.

#![allow(clippy::disallowed_methods, reason = "the tests measure time")]

use crate::{
    marks::{Marks, end, is_gone},
    support::{Process, Server, await_that},
};
use nix::sys::signal::Signal;
use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// Each starts `sh "$0"`, the work, outside of its own process group, and lives for as long as the work does.
const LEAVING: [&str; 6] = [
    r#"timeout 60 sh "$0"; :"#,
    r#"setsid --wait sh "$0"; :"#,
    r#"bash -mc 'sh "$0" & wait' "$0"; :"#,
    r#"script -qec "sh $0" /dev/null </dev/null >/dev/null; :"#,
    // A daemon: its parents have exited.
    r#"(setsid sh -c 'sh "$0" & :' "$0" &); exec sleep 60"#,
    r#""$FENCEPOST" run inner sh "$0"; :"#,
];

/// The work: writes marks until SIGTERM, for a while after it, or for ever (`stubborn`).
fn work(marks: &Marks, stubborn: bool) -> String {
    let end = if stubborn { "" } else { "sleep 0.2; echo work; exit" };
    let text = format!(
        "exec >> {}; trap '{end}' TERM HUP INT; echo pid=$$; while :; do echo work; sleep 0.01; done\n",
        marks.path()
    );
    let path = format!("{}.sh", marks.path());
    fs::write(&path, text).unwrap();
    path
}

fn start(server: &Server, script: &str, work: &str) -> Process {
    let mut command = server.command(&["run", "outer", "--ttl", "30s", "--", "sh", "-c", script, work]);
    Process::start(command.env("FENCEPOST", env!("CARGO_BIN_EXE_fencepost")))
}

fn token(server: &Server, lock: &str) -> String {
    let shown = server.run(&["get", lock, "--json"]).json();
    shown["lock"]["holders"][0]["fencingToken"].as_str().unwrap().to_owned()
}

fn revoke(server: &Server, lock: &str) {
    server.run(&["force-release", lock, "--token", &token(server, lock), "--reason", "it is stuck"]).expect(0);
}

#[test]
fn a_revoked_lease_kills_what_left_the_group() {
    let server = Server::start();
    for script in LEAVING {
        let marks = Marks::new();
        let running = start(&server, script, &work(&marks, true));
        let pid = marks.await_value("pid");
        revoke(&server, "outer");
        running.ended().expect(70).says("revoked").says("killed the command");
        assert!(is_gone(&pid), "{script}");
    }
}

#[test]
fn the_lock_is_released_when_nothing_is_left_of_what_left_the_group() {
    let server = Server::start();
    for script in LEAVING {
        let marks = Marks::new();
        let running = start(&server, script, &work(&marks, false));
        let pid = marks.await_value("pid");
        let next = format!("echo next >> {}", marks.path());
        let waiter = server.spawn(&["run", "outer", "--wait", "30s", "--", "sh", "-c", &next]);
        await_that("a waiter", || server.waiters("outer") == 1);
        running.signal(Signal::SIGTERM);
        running.ended().expect(128 + 15).says("left processes behind");
        assert!(is_gone(&pid), "{script}");
        waiter.ended().expect(0);
        assert_eq!(marks.read().last().unwrap(), "next", "{script}: {:?}", marks.read());
    }
}

#[test]
fn a_nested_run_stops_its_own_command_and_releases_its_lock() {
    let (server, marks) = (Server::start(), Marks::new());
    let running = start(&server, LEAVING[5], &work(&marks, false));
    let pid = marks.await_value("pid");
    revoke(&server, "inner");
    // The inner run exits with 70, and the script of the outer one goes on.
    running.ended().expect(0).says("killed the command");
    assert!(is_gone(&pid));
    assert_eq!(server.run(&["get", "outer", "--json"]).json()["lock"]["previousEnd"], "LEASE_END_RELEASED");
}

/// One by one it would never be hit: when a signal is on its way to a process, only its child is left.
#[test]
fn a_process_that_is_replaced_by_its_child_again_and_again_is_killed() {
    let (server, marks) = (Server::start(), Marks::new());
    // Without the marks it ends, so that it does not outlive a failed test.
    let hydra = format!("[ -d {} ] || exit\necho head >> {}\nsh \"$0\" &\n", marks.folder(), marks.path());
    let path = format!("{}.sh", marks.path());
    fs::write(&path, hydra).unwrap();
    let running = start(&server, r#"setsid sh "$0" >/dev/null 2>&1 & exec sleep 60"#, &path);
    await_that("several heads", || marks.read().len() > 20);
    revoke(&server, "outer");
    running.ended().expect(70).says("killed the command");
    let heads = marks.read().len();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(marks.read().len(), heads);
}

#[test]
fn processes_that_run_did_not_start_are_left_alone() {
    let (server, marks) = (Server::start(), Marks::new());
    // The shell replaces itself: its child becomes one of run.
    let script =
        format!("sleep 60 >/dev/null 2>&1 & echo pid=$! >> {}; exec \"$0\" run a -- sh -c 'exit 3'", marks.path());
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_fencepost")]).env("FENCEPOST_SERVER", &server.url);
    let ended = Process::start(&mut command).ended();
    let stranger = marks.await_value("pid");
    assert!(!is_gone(&stranger));
    end(&stranger);
    assert_eq!(ended.expect(3).err, "");
    assert!(server.is_free("a"));
}

/// A daemon whose child is in the group of the command, has exited, and is never asked for its status.
#[test]
fn a_dead_process_costs_no_time() {
    let server = Server::start();
    let daemon = "(exec >/dev/null 2>&1; sleep 0.01 & exec setsid sleep 60) &";
    let began = Instant::now();
    let ended = server.run(&["run", "a", "--", "sh", "-c", &format!("{daemon} sleep 0.5; exit 4")]).expect(4);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(!ended.err.contains("killed") && ended.err.contains("(sleep)"), "{ended:?}");
    assert!(server.is_free("a"));
}

/// Where the descendants cannot be found, the process group is stopped, and the limit is said once.
#[test]
fn without_a_view_of_the_processes_run_warns_and_stops_the_group() {
    let hide = ["-rm", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"];
    if !Command::new("unshare").args(hide).arg("true").output().is_ok_and(|done| done.status.success()) {
        return eprintln!("skipped: this user may not hide /proc");
    }
    let (server, marks) = (Server::start(), Marks::new());
    let script = format!("(exec >/dev/null 2>&1; sleep 60) & echo pid=$! >> {}; exit 5", marks.path());
    let mut command = Command::new("unshare");
    command.args(hide).args([env!("CARGO_BIN_EXE_fencepost"), "run", "a", "--", "sh", "-c", &script]);
    let ended = Process::start(command.env("FENCEPOST_SERVER", &server.url)).ended().expect(5);
    let ended = ended.says("run stops only the command's process group").says("left processes behind");
    assert_eq!(ended.err.matches("this system").count(), 1, "{ended:?}");
    assert!(is_gone(&marks.await_value("pid")) && server.is_free("a"));
}
