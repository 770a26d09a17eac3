//! The Python example, run as in docs/api.md: it generates stubs from `proto/`, then acquires a lock, keeps it alive,
//! loses it and releases it.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../support/binary.rs"]
mod support;

use nix::sys::signal::Signal;
use std::{
    path::{Path, PathBuf},
    process::Command,
};
use support::{Process, Server, await_that};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The environment that `.ci/setup` creates, and stubs of the present API.
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
        self.start_at(address(server), arguments)
    }

    /// The example with this target.
    fn start_at(&self, target: &str, arguments: &[&str]) -> Process {
        self.run(&[&["examples/python/lock.py"], arguments, &["--server", target]].concat())
    }

    fn run(&self, arguments: &[&str]) -> Process {
        let mut command = Command::new(&self.interpreter);
        command.current_dir(ROOT).env("PYTHONPATH", self.stubs.path()).env("PYTHONDONTWRITEBYTECODE", "1");
        Process::start(command.args(arguments))
    }
}

fn address(server: &Server) -> &str {
    server.url.trim_start_matches("http://")
}

fn token(line: &str) -> u64 {
    line.strip_prefix("acquired a token ").unwrap_or_else(|| panic!("{line}")).parse().unwrap()
}

#[test]
fn the_example_acquires_a_lock_keeps_it_alive_and_releases_it() {
    let (server, python) = (Server::start(), Python::new());
    // Three TTLs.
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
fn the_example_waits_for_a_lock_and_learns_of_its_loss() {
    let (server, python) = (Server::start(), Python::new());
    let acquired = server.run(&["acquire", "a", "--ttl", "1h"]).expect(0);
    let waiting = python.start(&server, &["a", "--ttl", "2", "--wait", "600", "--work", "600"]);
    await_that("the example is queued", || server.waiters("a") == 1);
    server.run(&["release", "a", "--lease-id", acquired.field("lease id")]).expect(0);
    assert!(token(&waiting.line()) > acquired.field("token").parse().unwrap());
    waiting.pause();
    await_that("the lease has expired", || server.is_free("a"));
    waiting.signal(Signal::SIGCONT);
    waiting.ended().expect(70).says("lock lost");

    let revoked = python.start(&server, &["a", "--ttl", "60", "--work", "600"]);
    let held = token(&revoked.line()).to_string();
    server.run(&["force-release", "a", "--token", &held, "--reason", "it is stuck"]).expect(0);
    revoked.ended().expect(70).says("lost: LEASE_END_REVOKED").says("lock lost");
}

/// A call as grpcio makes it by default.
const CALL: &str = "
import grpc, sys
from fencepost.v1 import lock_pb2 as pb
from fencepost.v1.lock_pb2_grpc import LockServiceStub
try:
    LockServiceStub(grpc.insecure_channel(sys.argv[1])).Get(pb.GetRequest(lock_name='a'), timeout=10)
except grpc.RpcError as error:
    print(error.code().name, error.details())
";

#[test]
fn a_target_of_several_servers_needs_a_name_for_them() {
    let (server, other) = (Server::start_with(&["--log-level", "info,h2::server=debug"]), Server::start());
    let python = Python::new();
    let both = format!("ipv4:{},{}", address(&server), address(&other));
    // As docs/api.md says. If HTTP/2 libraries accept such a name some day, that page can do without it.
    let refused = python.run(&["-c", CALL, &both]).ended().expect(0).out;
    assert!(refused.starts_with("INTERNAL") && refused.contains("RST_STREAM"), "{refused}");
    await_that("the log has the cause", || server.log().contains("malformed authority"));
    let acquire = || python.start_at(&both, &["a", "--work", "0"]).ended().expect(0);
    let last_end = |server: &Server| server.run(&["get", "a", "--json"]).json()["lock"]["previousEnd"].clone();
    acquire();
    assert_eq!((last_end(&server), last_end(&other)), ("LEASE_END_RELEASED".into(), serde_json::Value::Null));
    drop(server);
    acquire();
    assert_eq!(last_end(&other), "LEASE_END_RELEASED");
}

#[test]
fn a_unix_socket_needs_a_name_for_its_server() {
    let (folder, python) = (tempfile::tempdir().unwrap(), Python::new());
    let target = format!("unix:{}/fencepost.sock", folder.path().display());
    let _server = Server::start_at(&target, &[], &[]);
    let refused = python.run(&["-c", CALL, &target]).ended().expect(0).out;
    assert!(refused.starts_with("INTERNAL") && refused.contains("RST_STREAM"), "{refused}");
    python.start_at(&target, &["a", "--work", "0"]).ended().expect(0);
}
