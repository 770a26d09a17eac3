//! `run --also`: a command under several locks.

use crate::{
    marks::{Marks, is_gone},
    support::{Server, await_that},
};
use nix::sys::signal::Signal;
use serde_json::Value;

/// The waiters of a lock.
fn waiters(server: &Server, name: &str) -> u64 {
    server.run(&["get", name, "--json"]).json()["lock"]["waiters"].as_u64().unwrap_or_default()
}

#[test]
fn the_command_gets_the_tokens_of_all_locks() {
    let server = Server::start();
    // In a nested run, the variables are those of the inner one.
    for names in [&["b/\"2\"", "a"][..], &["b/\"2\""]] {
        let script = r#"printf '%s\n' "$FENCEPOST_LOCK" "$FENCEPOST_TOKEN" "$FENCEPOST_GRANT_ID" "$FENCEPOST_TOKENS" \
                        "$FENCEPOST_GRANT_IDS"; exit 7"#;
        let also = names[1..].iter().flat_map(|name| ["--also", name]);
        let words: Vec<_> = ["run", names[0]].into_iter().chain(also).chain(["--", "sh", "-c", script]).collect();
        let mut command = server.command(&words);
        let outer = [("FENCEPOST_TOKENS", "outer"), ("FENCEPOST_GRANT_IDS", "outer")];
        let ended = crate::support::Process::start(command.envs(outer)).ended().expect(7);
        let lines: Vec<_> = ended.out.lines().collect();
        let [tokens, grants] = [lines[3], lines[4]].map(|line| serde_json::from_str::<Value>(line).unwrap());
        assert_eq!((lines[0], tokens.as_object().unwrap().len()), (names[0], names.len()));
        assert_eq!((&tokens[names[0]], &grants[names[0]]), (&lines[1].into(), &lines[2].into()));
        for name in names {
            let lock = &server.run(&["get", name, "--json"]).json()["lock"];
            assert_eq!((&lock["newestToken"], &lock["previousEnd"]), (&tokens[name], &"LEASE_END_RELEASED".into()));
        }
        assert_eq!(ended.err, "");
    }
}

#[test]
fn all_locks_are_held_or_none() {
    let server = Server::start();
    let holder = server.spawn(&["run", "c", "--holder", "first", "--", "sh", "-c", "echo ready; exec sleep 60"]);
    assert_eq!(holder.line(), "ready");
    let ended = server.run(&["run", "a", "--also", "c", "--also", "b", "--", "echo", "never"]).expect(75);
    let ended = ended.says("c is held by first").says("; given back: b, a");
    let late = server.run(&["run", "a", "--also", "c", "--wait", "300ms", "--", "echo", "never"]).expect(75);
    let late = late.says("timed out after 300 ms: c is held by first").says("; given back: a");
    assert_eq!((ended.out.as_str(), late.out.as_str()), ("", ""));
    assert!(server.is_free("a") && server.is_free("b"));
    // A signal while it waits gives back what it has.
    let waiting = server.spawn(&["run", "a", "--also", "c", "--wait", "60s", "--", "echo", "never"]);
    await_that("it waits", || waiters(&server, "c") == 1);
    waiting.signal(Signal::SIGTERM);
    waiting.ended().expect(128 + 15);
    assert!(server.is_free("a"));
    assert_eq!(waiters(&server, "c"), 0);
    // A loss while it waits ends it.
    let waiting = server.spawn(&["run", "a", "--also", "b", "--also", "c", "--wait", "60s", "--", "echo", "never"]);
    await_that("it waits", || waiters(&server, "c") == 1);
    revoke(&server, "b");
    waiting.ended().expect(75).says("b (token").says("the lease was revoked").says("; given back: a");
    assert!(server.is_free("a"));
    holder.signal(Signal::SIGTERM);
    holder.ended();
}

fn revoke(server: &Server, name: &str) {
    let lock = server.run(&["get", name, "--json"]).json();
    let token = lock["lock"]["holders"][0]["fencingToken"].as_str().unwrap();
    server.run(&["force-release", name, "--token", token, "--reason", "it is stuck"]).expect(0);
}

#[test]
fn the_loss_of_one_lock_kills_the_command_and_the_others_are_released() {
    let (server, marks) = (Server::start(), Marks::new());
    let script = format!("trap '' TERM; echo pid=$$ >> {}; while :; do sleep 0.02; done", marks.path());
    let running = server.spawn(&["run", "b", "--also", "a", "--also", "c", "--", "sh", "-c", &script]);
    let pid = marks.await_value("pid");
    revoke(&server, "a");
    running.ended().expect(70).says("a (token").says("revoked").says("killed the command");
    assert!(is_gone(&pid));
    for name in ["b", "c"] {
        assert!(server.is_free(name), "{name}");
    }
}

#[test]
fn a_stuck_command_is_stopped_before_one_of_its_locks_was_held_for_max_hold() {
    let server = Server::start();
    let words = ["run", "b", "--also", "a", "--ttl", "2s", "--max-hold", "3s", "--", "sleep", "600"];
    server.run(&words).expect(70).says(" was held for its --max-hold, and its lease ends in ");
    assert!(server.is_free("a") && server.is_free("b"));
}

#[test]
fn a_name_that_is_given_twice_is_one_lock() {
    let server = Server::start();
    let script = r#"printf '%s' "$FENCEPOST_TOKENS""#;
    let ended = server.run(&["run", "a", "--also", "a", "--also", "b", "--also", "a", "--", "sh", "-c", script]);
    let tokens = ended.expect(0).json();
    assert_eq!(tokens.as_object().unwrap().keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn runs_with_the_same_locks_do_not_wait_for_each_other_in_a_circle() {
    let (server, marks) = (Server::start(), Marks::new());
    let script = format!("echo begins >> {0}; sleep 0.1; echo ends >> {0}", marks.path());
    let run =
        |first, second| server.spawn(&["run", first, "--also", second, "--wait", "60s", "--", "sh", "-c", &script]);
    let running: Vec<_> = (0..3).flat_map(|_| [run("a", "b"), run("b", "a")]).collect();
    running.into_iter().for_each(|run| drop(run.ended().expect(0)));
    assert_eq!(marks.read(), ["begins", "ends"].repeat(6));
}

#[test]
fn what_belongs_to_one_lock_is_refused() {
    let server = Server::start();
    let id = "00000000-0000-4000-8000-000000000001";
    for option in [
        &["--request-id", id][..],
        &["--min-token", "7"],
        &["--min-hold", "1m"],
        // All have one mode, so no name can be given in two.
        &["--shared"],
        &["--limit", "2"],
        &["--permits", "2"],
        &["--limit-version", "2"],
    ] {
        server.run(&[&["run", "a", "--also", "b"], option, &["--", "true"]].concat()).expect(2).says(option[0]);
    }
    assert!(server.is_free("a") && server.is_free("b"));
    let many: Vec<_> = (0..64).map(|number| format!("--also=b{number}")).collect();
    let words: Vec<_> = ["run", "a"].into_iter().chain(many.iter().map(String::as_str)).chain(["--", "true"]).collect();
    server.run(&words).expect(2).says("1 to 64 different names, not 65");
}
