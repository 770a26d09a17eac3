//! Commands that make one call: their output as text and as JSON.

use crate::support::{Server, await_that};
use nix::sys::signal::Signal;
use serde_json::Value;

fn token(server: &Server, lock: &str) -> u64 {
    server.run(&["acquire", lock, "--ttl", "30s"]).expect(0).field("token").parse().unwrap()
}

#[test]
fn a_lock_is_acquired_shown_renewed_and_released() {
    let server = Server::start();
    let taken =
        server.run(&["acquire", "orders/42", "--ttl", "30s", "--holder", "worker-7", "--metadata", "job=9"]).expect(0);
    assert_eq!(taken.field("acquired"), "orders/42");
    let (token, lease_id) = (taken.field("token"), taken.field("lease id"));

    let shown = server.run(&["get", "orders/42"]).expect(0);
    assert!(shown.out.starts_with(&format!("orders/42 is held by worker-7 (token {token}) for another ")), "{shown:?}");
    assert!(shown.out.contains("\n  job=9\n") && !shown.out.contains(lease_id), "{shown:?}");

    let renewed = server.run(&["renew", "orders/42", "--lease-id", lease_id, "--ttl", "40s"]).expect(0);
    assert!(renewed.out.contains(&format!("renewed orders/42 (token {token}) for 40 s")), "{renewed:?}");

    let mut release = server.command(&["release", "orders/42"]);
    let released = crate::support::Process::start(release.env("FENCEPOST_LEASE_ID", lease_id)).ended().expect(0);
    assert_eq!(released.out, "released orders/42\n");
    let again = server.run(&["release", "orders/42", "--lease-id", lease_id]).expect(0);
    assert_eq!(again.out, "released orders/42\n", "a repeat has the same answer");
    assert!(server.run(&["get", "orders/42"]).expect(0).out.starts_with("orders/42 is free"));
}

#[test]
fn responses_are_json_in_the_mapping_of_protobuf() {
    let server = Server::start();
    let taken = server.run(&["acquire", "a", "--ttl", "30s", "--json"]).expect(0).json();
    assert_eq!(taken["outcome"], "OUTCOME_ACQUIRED");
    assert_eq!(taken["lease"]["lockName"], "a");
    let token: u64 = taken["lease"]["fencingToken"].as_str().expect("tokens are strings").parse().unwrap();
    assert!(token > 0);
    assert!(taken["lease"]["ttl"].as_str().unwrap().ends_with('s'));

    let refused = server.run(&["acquire", "a", "--json"]).expect(75).says("a is held by").json();
    assert_eq!(refused["outcome"], "OUTCOME_CONTENDED");
    assert_eq!(refused["holders"][0]["fencingToken"], token.to_string());
    assert!(refused["holders"][0]["leaseId"].is_null());

    let lock = server.run(&["get", "a", "--json"]).expect(0).json();
    assert_eq!(lock["lock"]["newestToken"], token.to_string());
    let checked = server.run(&["check-token", "a", &token.to_string(), "--json"]).expect(0).json();
    assert_eq!(checked["status"], "STATUS_CURRENT");
    let ended = server.run(&["release", "a", "--lease-id", taken["lease"]["leaseId"].as_str().unwrap(), "--json"]);
    assert_eq!(ended.expect(0).json()["end"], "LEASE_END_RELEASED");
}

#[test]
fn a_repeated_request_has_no_further_effect() {
    let server = Server::start();
    let id = "0ea85d06-5d6b-4f61-8a5f-1f5e5c1c0b11";
    let acquire = ["acquire", "a", "--ttl", "30s", "--holder", "w", "--request-id", id];
    let (one, two) = (server.run(&acquire).expect(0), server.run(&acquire).expect(0));
    assert_eq!(one.field("token"), two.field("token"));
    assert_eq!(one.field("lease id"), two.field("lease id"));
}

#[test]
fn tokens_rise_and_only_the_current_one_passes_the_check() {
    let server = Server::start();
    let first = server.run(&["acquire", "a", "--ttl", "30s"]).expect(0);
    let one = first.field("token").to_owned();
    assert_eq!(server.run(&["check-token", "a", &one]).expect(0).out, format!("token {one} of a is current\n"));
    server.run(&["release", "a", "--lease-id", first.field("lease id")]).expect(0);
    server.run(&["check-token", "a", &one]).expect(1).says("its lease has ended: refuse the write");
    let two = token(&server, "a");
    assert!(two > one.parse().unwrap());
    server.run(&["check-token", "a", &one]).expect(1).says(&format!("is stale, the newest is {two}"));
    server.run(&["check-token", "nothing", "7"]).expect(1).says("is not known to the server");
}

#[test]
fn a_listing_is_sorted_and_has_a_prefix() {
    let server = Server::start();
    assert!(server.run(&["ls"]).expect(0).says("no lock is held").out.is_empty());
    for lock in ["b/2", "a/1", "b/1"] {
        token(&server, lock);
    }
    let listed = server.run(&["ls"]).expect(0);
    let names: Vec<_> = listed.out.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names, ["LOCK", "a/1", "b/1", "b/2"]);
    let listed = server.run(&["ls", "b/", "--json"]).expect(0).json();
    let names: Vec<_> = listed["locks"].as_array().unwrap().iter().map(|lock| &lock["lockName"]).collect();
    assert_eq!(names, ["b/1", "b/2"]);
}

/// Names and labels that would turn the text of a terminal around, hide in it, or clear it.
#[test]
fn what_others_chose_is_shown_with_its_characters_escaped_and_in_json_as_it_is() {
    let server = Server::start();
    let (name, holder) = ("pay\u{202e}roll", "eve\u{2066}\u{200b}");
    let watch = server.spawn(&["watch", "--json", "--name", name]);
    watch.line();
    // It has started once it shows an event.
    let shown_watch = server.spawn(&["watch"]);
    await_that("an event", || {
        let taken = server.run(&["acquire", "first"]).expect(0);
        server.run(&["release", "first", "--lease-id", taken.field("lease id")]).expect(0);
        !shown_watch.lines_so_far().is_empty()
    });
    let acquire = ["acquire", name, "--ttl", "1m", "--holder", holder, "--metadata", "k\u{202d}=v\u{2069}"];
    let token = server.run(&acquire).expect(0).field("token").to_owned();
    let invisible = |text: &str| text.contains(['\u{202e}', '\u{2066}', '\u{200b}', '\u{202d}', '\u{2069}']);
    let escaped = |text: &str| text.contains(r"pay\u{202e}roll") && text.contains(r"eve\u{2066}\u{200b}");
    for shown in [server.run(&["ls"]).out, server.run(&["get", name]).out, server.run(&["acquire", name]).err] {
        assert!(escaped(&shown) && !invisible(&shown), "{shown:?}");
    }
    assert!(server.run(&["get", name]).out.contains(r"k\u{202d}=v\u{2069}"));
    let exact = server.run(&["get", name, "--json"]).json();
    assert_eq!(exact["lock"]["holders"][0]["holder"], holder);
    assert_eq!(exact["lock"]["holders"][0]["metadata"]["k\u{202d}"], "v\u{2069}");
    assert_eq!(server.run(&["ls", "--json"]).json()["locks"][0]["lockName"], name);
    let revoked = server.run(&["force-release", name, "--token", &token, "--reason", "why\u{202e}"]).expect(0);
    assert!(!invisible(&revoked.out), "{revoked:?}");
    assert_eq!(serde_json::from_str::<Value>(&watch.line()).unwrap()["lockName"], name);
    let mut events = shown_watch.line();
    while !events.contains("reason") {
        events = shown_watch.line();
    }
    assert!(escaped(&events) && events.contains(r"why\u{202e}") && !invisible(&events), "{events:?}");
}

#[test]
fn an_operator_revokes_a_lease() {
    let server = Server::start();
    let taken = server.run(&["acquire", "a", "--ttl", "30s", "--holder", "worker-7"]).expect(0);
    let token = taken.field("token");
    let force = |token: &str| server.run(&["force-release", "a", "--token", token, "--reason", "it is stuck"]);
    force("1")
        .expect(1)
        .says(&format!("a is held, or kept by a delay, under token {token}, not 1: nothing was changed"));
    assert!(force(token).expect(0).out.contains("revoked the lease of worker-7 on a"));
    force(token).expect(1).says("nobody holds a");
    server.run(&["check-token", "a", token]).expect(1);
    server.run(&["renew", "a", "--lease-id", taken.field("lease id")]).expect(1).says("was revoked");
    server.run(&["release", "a", "--lease-id", taken.field("lease id")]).expect(1).says("was revoked");
}

#[test]
fn a_watch_prints_events() {
    let server = Server::start();
    let watch = server.spawn(&["watch", "a/", "--json"]);
    let event = || serde_json::from_str::<Value>(&watch.line()).unwrap();
    assert_eq!(event()["kind"], "KIND_STARTED");
    token(&server, "b/1");
    let taken = server.run(&["acquire", "a/1", "--ttl", "30s", "--holder", "worker-7"]).expect(0);
    let granted = event();
    assert_eq!((&granted["kind"], &granted["lockName"]), (&"KIND_GRANTED".into(), &"a/1".into()));
    assert_eq!(granted["fencingToken"], taken.field("token"));
    server.run(&["force-release", "a/1", "--token", taken.field("token"), "--reason", "it is stuck"]).expect(0);
    let revoked = event();
    assert_eq!((&revoked["kind"], &revoked["reason"]), (&"KIND_REVOKED".into(), &"it is stuck".into()));
    watch.signal(Signal::SIGINT);
    watch.ended().expect(-(Signal::SIGINT as i32));
}
