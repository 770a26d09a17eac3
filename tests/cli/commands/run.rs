//! `run` with a good lease: environment, exit status, signals, order.

use crate::{
    marks::{Marks, is_gone},
    support::Server,
};
use nix::sys::signal::Signal;

#[test]
fn the_command_gets_its_lock_in_the_environment_and_its_status_is_returned() {
    let server = Server::start();
    let script = r#"echo "$FENCEPOST_LOCK $FENCEPOST_TOKEN $FENCEPOST_GRANT_ID [$FENCEPOST_LEASE_ID]"; exit 7"#;
    let mut command = server.command(&["run", "orders/42", "--", "sh", "-c", script]);
    let ended = crate::support::Process::start(command.env("FENCEPOST_LEASE_ID", "another's")).ended().expect(7);
    let words: Vec<_> = ended.out.split_whitespace().collect();
    assert_eq!((words[0], words[3]), ("orders/42", "[]"));
    assert!(words[1].parse::<u64>().unwrap() > 0 && !words[2].is_empty());
    assert_eq!(ended.err, "");
    assert!(server.is_free("orders/42"));
    let lock = server.run(&["get", "orders/42", "--json"]).json();
    assert_eq!(
        (&lock["lock"]["newestToken"], &lock["lock"]["previousEnd"]),
        (&words[1].into(), &"LEASE_END_RELEASED".into())
    );
}

#[test]
fn the_command_needs_no_dashes_before_it() {
    let server = Server::start();
    let ended = server.run(&["run", "a", "--ttl", "30s", "sh", "-c", "echo \"$@\"", "sh", "--wait", "--", "-x"]);
    assert_eq!(ended.expect(0).out, "--wait -- -x\n");
    server.run(&["run", "a", "--wiat", "30s", "true"]).expect(2).says("--wait");
}

#[test]
fn a_command_that_cannot_start_has_the_exit_code_of_a_shell_and_the_lock_is_released() {
    let server = Server::start();
    server.run(&["run", "a", "--", "fencepost-no-such-command"]).expect(127).says("command not found");
    assert!(server.is_free("a"));
    server.run(&["run", "a", "--", "/"]).expect(126).says("cannot be executed");
    assert!(server.is_free("a"));
}

#[test]
fn the_lease_is_renewed_for_as_long_as_the_command_runs() {
    let server = Server::start();
    // Twice the TTL. Each renewal may be more than a second late.
    let ended = server.run(&["run", "a", "--ttl", "5s", "--", "sleep", "10"]).expect(0);
    assert_eq!(ended.err, "");
    assert_eq!(server.run(&["get", "a", "--json"]).json()["lock"]["previousEnd"], "LEASE_END_RELEASED");
}

#[test]
fn a_stuck_command_is_stopped_before_its_lock_was_held_for_max_hold() {
    let server = Server::start();
    let stuck = server.run(&["run", "a", "--ttl", "2s", "--max-hold", "3s", "sleep", "600"]).expect(70);
    assert!(stuck.err.contains("a was held for its --max-hold, and its lease ends in "), "{stuck:?}");
    let holder = server.run(&["acquire", "b", "--ttl", "2s", "--max-hold", "2s", "--json"]).json();
    assert_eq!(holder["lease"]["ttl"], "2s");
    server.run(&["run", "a", "--ttl", "10s", "--max-hold", "5s", "true"]).expect(64).says("max_hold must be at least");
    server.run(&["run", "a", "--max-hold", "1", "true"]).expect(2).says("--max-hold");
}

#[test]
fn commands_that_share_a_lock_run_side_by_side() {
    let server = Server::start();
    let reader = server.run(&["acquire", "docs", "--shared", "--ttl", "60s", "--holder", "reader-1", "--json"]).json();
    assert_eq!(server.run(&["run", "docs", "--shared", "--", "echo", "read"]).expect(0).out, "read\n");
    let writer = server.run(&["run", "docs", "--", "echo", "wrote"]).expect(75);
    assert!(writer.err.contains("docs is shared by reader-1 (token "), "{writer:?}");
    let shown = server.run(&["get", "docs"]).expect(0).out;
    assert!(shown.contains("  mode      shared\n"), "{shown}");
    let listed = server.run(&["ls"]).expect(0).out;
    assert!(listed.contains("reader-1 (shared)"), "{listed}");
    let lease = reader["lease"]["leaseId"].as_str().unwrap();
    server.run(&["release", "docs", "--lease-id", lease]).expect(0);
    assert_eq!(server.run(&["run", "docs", "--", "echo", "wrote"]).expect(0).out, "wrote\n");
    // A reader that is gone keeps its place for a minute: another reader comes in, and a writer is refused.
    server.run(&["run", "docs", "--shared", "--min-hold", "1m", "true"]).expect(0);
    server.run(&["run", "docs", "--shared", "true"]).expect(0);
    server.run(&["run", "docs", "true"]).expect(75).says("(delay after ");
    server.run(&["run", "docs", "--also", "b", "--shared", "true"]).expect(2).says("--shared");
}

#[test]
fn a_lease_is_converted_by_its_id_and_token() {
    let server = Server::start();
    let acquired = server.run(&["acquire", "docs", "--ttl", "60s", "--json"]).json();
    let (lease, token) = (&acquired["lease"]["leaseId"], &acquired["lease"]["fencingToken"]);
    let (lease, token) = (lease.as_str().unwrap(), token.as_str().unwrap());
    let convert = |to| ["convert", "docs", to, "--lease-id", lease, "--token", token];
    let shared = server.run(&convert("shared")).expect(0).out;
    assert!(shared.starts_with(&format!("docs is shared (token {token}) for ")), "{shared}");
    let reader = server.run(&["acquire", "docs", "--shared", "--ttl", "60s", "--json"]).json();
    server.run(&convert("exclusive")).expect(75).says("docs is shared by ");
    let of_reader = reader["lease"]["leaseId"].as_str().unwrap();
    server.run(&["release", "docs", "--lease-id", of_reader]).expect(0);
    let alone = server.run(&convert("exclusive")).expect(0).out;
    assert!(alone.starts_with("docs is exclusive (token ") && !alone.contains(token), "{alone}");
    server.run(&convert("shared")).expect(1).says("it was converted since");
    server.run(&["release", "docs", "--lease-id", lease]).expect(0);
    server.run(&convert("shared")).expect(1).says("stop the work");
}

#[test]
fn commands_take_permits_of_a_semaphore() {
    let server = Server::start();
    let holder = |label| ["acquire", "gpus", "--limit", "2", "--ttl", "60s", "--holder", label, "--json"];
    let first = server.run(&holder("first")).json();
    assert_eq!(first["lease"]["slot"], 1);
    let slot = ["run", "gpus", "--limit", "2", "--", "sh", "-c", "echo $FENCEPOST_SLOT"];
    assert_eq!(
        server.run(&slot).expect(0).out,
        "2
"
    );
    let alone = ["run", "other", "--", "sh", "-c", "echo ${FENCEPOST_SLOT-none}"];
    assert_eq!(
        server.run(&alone).expect(0).out,
        "none
"
    );
    server.run(&holder("second")).expect(0);
    let refused = server.run(&slot).expect(75);
    assert!(refused.err.contains("first (token ") && refused.err.contains(", slot 2) for another"), "{refused:?}");
    let shown = server.run(&["get", "gpus"]).expect(0).out;
    assert!(
        shown.contains("  slot      1\n") && shown.contains("  2 of 2 permits in use (limit version 0)"),
        "{shown}"
    );
    let listed = server.run(&["ls"]).expect(0).out;
    assert!(listed.contains("first (slot 1)"), "{listed}");
    let other = ["run", "gpus", "--limit", "3", "true"];
    server.run(&other).expect(64).says("give a changed limit a higher version");
    let raised = ["run", "gpus", "--limit", "5", "--limit-version", "1", "--permits", "3", "--", "echo", "three"];
    assert_eq!(server.run(&raised).expect(0).out, "three\n");
    server.run(&["run", "gpus", "--permits", "2", "true"]).expect(2).says("--limit");
    server.run(&["run", "gpus", "--limit", "0", "true"]).expect(2).says("--limit");
    server.run(&["run", "gpus", "--limit", "2", "--shared", "true"]).expect(2).says("--shared");
    let exported = server.run(&["acquire", "gpus", "--limit", "5", "--limit-version", "1", "--export"]).expect(0).out;
    assert!(exported.ends_with("export FENCEPOST_SLOT='3'\n"), "{exported}");
}

/// As from cron on two machines.
#[test]
fn a_job_with_min_hold_runs_once_however_short_it_is() {
    let server = Server::start();
    let job = ["run", "nightly", "--min-hold", "1h", "--", "echo", "ran"];
    assert_eq!(server.run(&job).expect(0).out, "ran\n");
    let second = server.run(&job).expect(75);
    assert_eq!(second.out, "");
    assert!(second.err.contains("nightly is unavailable for another 59 min "), "{second:?}");
    assert!(second.err.contains("(delay after "), "{second:?}");
    let lock = &server.run(&["get", "nightly", "--json"]).json()["lock"];
    let token = lock["delay"]["fencingToken"].as_str().unwrap();
    server.run(&["force-release", "nightly", "--token", token, "--reason", "run it again"]).expect(0);
    assert_eq!(server.run(&job).expect(0).out, "ran\n");
    server.run(&["run", "a", "--lock-delay", "61s", "true"]).expect(64).says("lock_delay");
    server.run(&["run", "a", "--min-hold", "1", "true"]).expect(2).says("--min-hold");
    server.run(&["run", "a", "--also", "b", "--min-hold", "1m", "true"]).expect(2).says("--min-hold");
}

#[test]
fn signals_are_forwarded() {
    let server = Server::start();
    for (signal, name) in
        [(Signal::SIGTERM, "TERM"), (Signal::SIGINT, "INT"), (Signal::SIGHUP, "HUP"), (Signal::SIGUSR1, "USR1")]
    {
        let script = format!("trap 'exit 42' {name}; echo ready; while :; do sleep 0.02; done");
        let running = server.spawn(&["run", "a", "--", "sh", "-c", &script]);
        assert_eq!(running.line(), "ready");
        running.signal(signal);
        running.ended().expect(42);
    }
    let running = server.spawn(&["run", "a", "--", "sh", "-c", "echo ready; exec sleep 60"]);
    assert_eq!(running.line(), "ready");
    running.signal(Signal::SIGTERM);
    running.ended().expect(128 + 15);
    assert!(server.is_free("a"));
}

#[test]
fn the_end_by_a_real_time_signal_has_its_exit_code_too() {
    let server = Server::start();
    server.run(&["run", "a", "--", "sh", "-c", "kill -s RTMIN $$"]).expect(128 + 34);
    assert!(server.is_free("a"));
}

#[test]
fn a_waiting_command_runs_after_that_of_the_holder() {
    let (server, marks) = (Server::start(), Marks::new());
    let script = |name: &str| format!("echo {name} begins >> {0}; sleep 0.3; echo {name} ends >> {0}", marks.path());
    let first = server.spawn(&["run", "a", "--", "sh", "-c", &script("first")]);
    marks.await_mark("first begins");
    let second = server.spawn(&["run", "a", "--wait", "30s", "--", "sh", "-c", &script("second")]);
    first.ended().expect(0);
    second.ended().expect(0);
    assert_eq!(marks.read(), ["first begins", "first ends", "second begins", "second ends"]);
}

#[test]
fn processes_left_behind_are_stopped_before_the_next_holder_runs() {
    let (server, marks) = (Server::start(), Marks::new());
    // A background process that writes until SIGTERM, and once more after it.
    let left = format!(
        "trap 'sleep 0.2; echo left >> {0}; exit' TERM; echo ready; while :; do echo left >> {0}; sleep 0.01; done",
        marks.path()
    );
    let script = format!("(exec >/dev/null 2>&1; {left}) & echo pid=$! >> {}; exit 3", marks.path());
    let holder = server.spawn(&["run", "a", "--", "sh", "-c", &script]);
    let pid = marks.await_value("pid");
    let next = format!("echo next >> {}", marks.path());
    let waiter = server.spawn(&["run", "a", "--wait", "30s", "--", "sh", "-c", &next]);
    holder.ended().expect(3).says("left processes behind");
    assert!(is_gone(&pid));
    waiter.ended().expect(0);
    assert_eq!(marks.read().last().unwrap(), "next", "{:?}", marks.read());
}

#[test]
fn the_command_survives_a_pause_of_run_within_the_ttl() {
    let server = Server::start();
    let running = server.spawn(&["run", "a", "--ttl", "20s", "--", "sh", "-c", "echo ready; sleep 1; exit 5"]);
    assert_eq!(running.line(), "ready");
    running.pause();
    running.signal(Signal::SIGCONT);
    running.ended().expect(5);
}
