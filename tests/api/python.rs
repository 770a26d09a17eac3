//! The Python example, run as the README says: stubs generated from `proto/`, then a lock taken, kept alive, lost,
//! given back.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

#[path = "../support/binary.rs"]
mod support;

use nix::sys::signal::Signal;
use std::{
    path::{Path, PathBuf},
    process::Command,
};
use support::{Process, Server, await_that};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The environment that `.ci/setup` makes, and stubs of the API as it is now.
struct Python {
    interpreter: PathBuf,
    stubs: tempfile::TempDir,
}

impl Python {
    fn new() -> Self {
        let interpreter = Path::new(ROOT).join("target/python/bin/python");
        assert!(interpreter.exists(), "the environment of the Python example is missing: run `make setup`");
        let stubs = tempfile::tempdir().unwrap();
        let out = stubs.path().display();
        let mut protoc = Command::new(&interpreter);
        protoc.current_dir(ROOT).args(["-m", "grpc_tools.protoc", "--proto_path=proto"]);
        protoc.args([&format!("--python_out={out}"), &format!("--grpc_python_out={out}"), "fencepost/v1/lock.proto"]);
        Process::start(&mut protoc).ended().expect(0);
        Self { interpreter, stubs }
    }

    fn start(&self, server: &Server, arguments: &[&str]) -> Process {
        let mut command = Command::new(&self.interpreter);
        command.current_dir(ROOT).env("PYTHONPATH", self.stubs.path()).env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg("examples/python/lock.py").args(arguments);
        Process::start(command.args(["--server", server.url.trim_start_matches("http://")]))
    }
}

fn token(line: &str) -> u64 {
    line.strip_prefix("acquired a token ").unwrap_or_else(|| panic!("{line}")).parse().unwrap()
}

#[test]
fn it_takes_a_lock_keeps_it_and_gives_it_back() {
    let (server, python) = (Server::start(), Python::new());
    // Three times its TTL.
    let running = python.start(&server, &["a", "--ttl", "2", "--work", "6"]);
    let token = token(&running.line());
    let lock = server.run(&["get", "a", "--json"]).expect(0).json();
    let holder = &lock["lock"]["holders"][0];
    assert_eq!((&holder["fencingToken"], &holder["holder"]), (&token.to_string().into(), &"lock.py".into()));
    let refused = python.start(&server, &["a"]).ended().expect(75).says("a is held by lock.py, 0 waiting");
    assert_eq!(refused.out, "");
    let ended = running.ended().expect(0);
    assert_eq!(
        (ended.out.as_str(), ended.err.as_str()),
        ("still valid after 6 s of work\nrelease: LEASE_END_RELEASED\n", "")
    );
    assert_eq!(server.run(&["get", "a", "--json"]).json()["lock"]["previousEnd"], "LEASE_END_RELEASED");
}

#[test]
fn it_waits_in_line_and_knows_when_it_has_lost() {
    let (server, python) = (Server::start(), Python::new());
    let taken = server.run(&["acquire", "a", "--ttl", "1h"]).expect(0);
    let waiting = python.start(&server, &["a", "--ttl", "2", "--wait", "600", "--work", "600"]);
    await_that("it waits", || server.waiters("a") == 1);
    server.run(&["release", "a", "--lease-id", taken.field("lease id")]).expect(0);
    assert!(token(&waiting.line()) > taken.field("token").parse().unwrap());
    waiting.pause();
    await_that("its lease has expired", || server.is_free("a"));
    waiting.signal(Signal::SIGCONT);
    waiting.ended().expect(70).says("lock lost");

    let told = python.start(&server, &["a", "--ttl", "60", "--work", "600"]);
    let held = token(&told.line()).to_string();
    server.run(&["force-release", "a", "--token", &held, "--reason", "it is stuck"]).expect(0);
    told.ended().expect(70).says("lost: LEASE_END_REVOKED").says("lock lost");
}
