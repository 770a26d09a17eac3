//! `serve`: configuration, start and end of the server.

use crate::support::{Process, Server, await_that, fencepost};
use nix::sys::signal::Signal;
use std::{fs, process::Command};

fn run(arguments: &[&str]) -> crate::support::Ended {
    Process::start(&mut fencepost(arguments)).ended()
}

#[test]
fn the_printed_configuration_can_be_read_back() {
    let printed = run(&["serve", "--print-config", "--ttl-min", "250ms", "--log-format", "json"]).expect(0);
    assert!(printed.out.contains("\nttl_min = \"250ms\"\n"), "{printed:?}");
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &printed.out).unwrap();
    let path = file.path().display().to_string();
    assert_eq!(run(&["serve", "--print-config", "--config", &path]).expect(0).out, printed.out);
    let mut by_variable = fencepost(&["serve", "--print-config"]);
    assert_eq!(Process::start(by_variable.env("FENCEPOST_CONFIG", &path)).ended().expect(0).out, printed.out);
}

/// A named pipe would keep the server waiting for ever for somebody who writes to it.
#[test]
fn a_file_of_options_is_a_regular_file_of_at_most_a_mebibyte() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let made = Command::new("sh").args(["-c", "mkfifo \"$0\"", &path("pipe")]).status().unwrap();
    assert!(made.success());
    fs::write(path("long"), "# \n".repeat(400_000)).unwrap();
    fs::write(path("bytes"), [0xff]).unwrap();
    for (name, why) in [
        ("pipe", "is not a file"),
        ("", "is not a file"),
        ("long", "has more than 1048576 bytes"),
        ("bytes", "is no text: it must be UTF-8"),
        ("missing", "cannot be read: No such file"),
    ] {
        let path = path(name);
        run(&["serve", "--print-config", "--config", &path]).expect(78).says(&format!("{path}: {why}"));
        let mut by_variable = fencepost(&["serve", "--print-config"]);
        Process::start(by_variable.env("FENCEPOST_CONFIG", &path)).ended().expect(78).says(why);
    }
}

#[test]
fn all_problems_are_reported_together() {
    let mut command = fencepost(&["serve", "--listen", "nowhere", "--store", "etcd://here"]);
    let refused = Process::start(command.env("FENCEPOST_TTL_MIN", "1")).ended().expect(78);
    refused.says("3 problems").says("--listen = \"nowhere\"").says("memory:").says("FENCEPOST_TTL_MIN = \"1\"");
    // The store's URL is checked together with the rest.
    let refused = run(&["serve", "--listen", "nowhere", "--store", "redis://user@localhost"]).expect(78);
    refused.says("2 problems").says("--store: the Redis URL has a user and no password");
}

#[test]
fn a_misspelt_variable_is_refused_and_those_of_others_are_not() {
    let with = |variables: &[(&str, &str)]| {
        Process::start(fencepost(&["serve", "--print-config"]).envs(variables.iter().copied())).ended()
    };
    // It would serve from memory, beside servers on the Redis that was meant.
    with(&[("FENCEPOST_STOR", "redis://:s3cret@a")]).expect(78).says("FENCEPOST_STOR").says("mean FENCEPOST_STORE?");
    // It would serve without client authentication.
    with(&[("FENCEPOST_TLS_CLIENTCA", "ca.pem")]).expect(78).says("did you mean FENCEPOST_TLS_CLIENT_CA?");
    with(&[("FENCEPOST_PORT", "7420")]).expect(78).says("FENCEPOST_PORT: no such variable");
    with(&[("FENCEPOST_SERVER", "a:1"), ("FENCEPOST_TOKEN", "7"), ("FENCEPOST_BIN", "fencepost")]).expect(0);
    // Kubernetes sets these in each pod beside a Service fencepost-admin.
    with(&[
        ("FENCEPOST_ADMIN_SERVICE_HOST", "10.96.0.7"),
        ("FENCEPOST_ADMIN_SERVICE_PORT", "7429"),
        ("FENCEPOST_ADMIN_PORT", "tcp://10.96.0.7:7429"),
    ])
    .expect(0);
}

#[test]
fn a_command_refuses_the_default_server_where_another_one_was_meant() {
    let server = Server::start();
    let mut command = fencepost(&["acquire", "a"]);
    Process::start(command.env("FENCEPOST_SERVR", &server.url))
        .ended()
        .expect(2)
        .says("did you mean FENCEPOST_SERVER?");
    let mut named = fencepost(&["acquire", "a", "--server", &server.url]);
    Process::start(named.env("FENCEPOST_SERVR", "b:1")).ended().expect(0);
}

#[test]
fn a_port_in_use_is_reported() {
    let server = Server::start();
    let taken = server.url.trim_start_matches("http://");
    run(&["serve", "--listen", taken]).expect(1).says(&format!("cannot listen on {taken}")).says("--listen");
}

#[test]
fn the_text_log_has_the_address() {
    let log = Server::start_with(&["--log-format", "text"]).log();
    let line = log.lines().find(|line| line.contains("listening")).unwrap();
    assert!(line.contains(" INFO ") && line.contains("addr=127.0.0.1:") && line.contains("store=memory:"), "{line}");
    assert!(!log.contains('\u{1b}'), "no colours without a terminal: {line}");
}

#[test]
fn memory_that_other_machines_can_reach_is_warned_of() {
    let warns = |server: &Server| server.log().lines().any(|line| line.contains("WARN") && line.contains("is memory"));
    assert!(!warns(&Server::start()));
    let reachable = Server::start_at("0.0.0.0:0", &["--plaintext"], &[]);
    assert!(warns(&reachable), "{}", reachable.log());
}

#[test]
fn the_log_has_no_secrets() {
    let server = Server::start_with(&["--log-level", "trace"]);
    let request_id = "0ea85d06-5d6b-4f61-8a5f-1f5e5c1c0b11";
    let taken = server.run(&["acquire", "a", "--ttl", "1m", "--request-id", request_id]).expect(0);
    let lease_id = taken.field("lease id");
    server.run(&["renew", "a", "--lease-id", lease_id]).expect(0);
    server.run(&["force-release", "a", "--token", taken.field("token"), "--reason", "it is stuck"]).expect(0);
    server.run(&["release", "a", "--lease-id", lease_id]).expect(1);
    server.run(&["run", "a", "--", "true"]).expect(0);
    let log = server.log();
    assert!(log.contains("it is stuck") && log.contains("TRACE"), "{log}");
    assert!(!log.contains(lease_id) && !log.contains(request_id), "{log}");
}

#[test]
fn at_debug_level_the_log_has_each_operation_and_its_caller() {
    let server = Server::start_with(&["--log-level", "debug"]);
    server.run(&["acquire", "orders/42", "--ttl", "1m"]).expect(0);
    // `run` uses a session.
    server.run(&["run", "orders/43", "--", "true"]).expect(0);
    let has = |operation: &str, lock: &str| {
        let fields = [("operation", operation), ("lock_name", lock), ("peer", "127.0.0.1:")];
        let fields = fields.map(|(name, value)| format!("\"{name}\":\"{value}"));
        server.log().lines().any(|line| fields.iter().all(|field| line.contains(field)))
    };
    for (operation, lock) in [("acquire", "orders/42"), ("acquire", "orders/43"), ("release", "orders/43")] {
        await_that(operation, || has(operation, lock));
    }
}

#[test]
fn a_signal_drains_the_server_and_ends_waits() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let server = Server::start();
        server.run(&["acquire", "a", "--ttl", "1m"]).expect(0);
        // The client retries for the rest of its wait, because the server may restart.
        let waiting = server.spawn(&["acquire", "a", "--wait", "2s"]);
        await_that("a waiter", || server.waiters("a") == 1);
        server.process.signal(signal);
        server.process.ended().expect(0);
        waiting.ended().expect(69);
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let server = Server::start_with(&["--drain-timeout", "5m"]);
    // An open stream delays the drain.
    let held = server.spawn(&["run", "a", "--ttl", "2s", "--", "sh", "-c", "echo running; exec sleep 60"]);
    assert_eq!(held.line(), "running");
    server.process.signal(Signal::SIGTERM);
    server.process.signal(Signal::SIGINT);
    let code = server.process.ended().code;
    assert!([0, 128 + 2, 128 + 15].contains(&code), "{code}");
    held.signal(Signal::SIGTERM);
    held.ended();
}

/// An operator may drain a server that its supervisor then ends: the first signal asks for what goes on already.
#[test]
fn a_second_signal_after_an_operators_drain_ends_at_once() {
    let server = Server::start_with(&["--drain-timeout", "5m"]);
    // An open stream delays the drain: there is no other server that it could go to.
    let held = server.spawn(&["run", "a", "--ttl", "2s", "--", "sh", "-c", "echo running; exec sleep 60"]);
    assert_eq!(held.line(), "running");
    server.run(&["drain", "--yes"]).expect(0);
    server.process.signal(Signal::SIGTERM);
    await_that("the first signal", || server.log().contains("a second signal ends the process at once"));
    server.process.signal(Signal::SIGTERM);
    server.process.ended().expect(128 + 15);
    held.signal(Signal::SIGTERM);
    held.ended();
}

#[test]
fn an_operator_drains_the_server() {
    let server = Server::start();
    let drained = server.run(&["drain", "--yes"]).expect(0);
    assert!(drained.out.starts_with("draining: "), "{drained:?}");
    server.process.ended().expect(0);
}

#[test]
fn the_binary_prints_its_manual_and_completions() {
    assert!(run(&["man"]).expect(0).out.contains(".TH"));
    assert!(run(&["man", "run"]).expect(0).out.contains("FENCEPOST_TOKEN"));
    assert!(run(&["completions", "bash"]).expect(0).out.contains("complete"));
}
