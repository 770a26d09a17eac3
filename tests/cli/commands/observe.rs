//! `observe` and `describe`: what others see of a holder.

use crate::support::{Process, Server};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

#[test]
fn an_observer_sees_each_state_and_observes_again_after_a_restart() {
    let server = Server::start();
    let observe = server.spawn(&["observe", "a"]);
    let shows = |what: &str| {
        let line = observe.line();
        assert!(line.contains("Z  ") && line.ends_with(what), "{what:?} is not at the end of {line:?}");
    };
    shows("  free      a  nobody holds it");
    let taken =
        server.run(&["acquire", "a", "--holder", "worker-7", "--owner", "job-9", "--metadata", "k=v"]).expect(0);
    let holder = format!("  held      a  token {}  worker-7  owner job-9", taken.field("token"));
    shows(&format!("{holder}  k=v"));
    let lease = ["--lease-id", taken.field("lease id")];
    server.run(&[&["describe", "a", "address=10.0.0.7"], &lease[..]].concat()).expect(0);
    shows(&format!("{holder}  description 1  address=10.0.0.7"));
    server.run(&[&["release", "a"], &lease[..]].concat()).expect(0);
    shows("  free      a  nobody holds it");
    let server = server.replace();
    shows("  free      a  nobody holds it");
    let taken = server.run(&["acquire", "a", "--holder", "worker-8", "--shared"]).expect(0);
    shows(&format!("  shared    a  token {}  worker-8", taken.field("token")));
    observe.signal(Signal::SIGINT);
    observe.ended().expect(-(Signal::SIGINT as i32)).says("a cannot be observed (");
}

#[test]
fn states_are_json_in_the_mapping_of_protobuf() {
    let server = Server::start();
    let observe = server.spawn(&["observe", "a", "--json"]);
    let state = || serde_json::from_str::<Value>(&observe.line()).unwrap();
    assert_eq!(state(), json!({"lock": {"lockName": "a"}}));
    let taken = server.run(&["acquire", "a", "--owner", "job-9"]).expect(0);
    let held = state();
    assert_eq!(held["lock"]["holders"][0]["fencingToken"], taken.field("token"));
    assert_eq!(held["lock"]["holders"][0]["owner"], "job-9");
    observe.signal(Signal::SIGTERM);
    observe.ended().expect(-(Signal::SIGTERM as i32));
}

#[test]
fn an_observer_that_no_server_answers_fails() {
    let unreachable = ["observe", "a", "--server", "127.0.0.1:1"];
    Process::start(&mut crate::support::fencepost(&unreachable)).ended().expect(69).says("cannot reach the server");
}

#[test]
fn a_description_replaces_what_others_see_of_a_lease() {
    let server = Server::start();
    let watch = server.spawn(&["watch", "a", "--json"]);
    watch.line();
    server.run(&["acquire", "b", "--metadata", "k=1", "--metadata", "k=2"]).expect(64).says("k twice");
    let taken = server.run(&["acquire", "a", "--holder", "worker-7", "--metadata", "old=1"]).expect(0);
    let describe = |words: &[&str]| {
        let mut command = server.command(&[&["describe", "a"], words].concat());
        Process::start(command.env("FENCEPOST_LEASE_ID", taken.field("lease id"))).ended()
    };
    let described = describe(&["state=half done", "by=me", "--holder", "worker-8"]).expect(0);
    assert_eq!(described.out, "described a (description 1)\n");
    let shown = server.run(&["get", "a"]).expect(0).out;
    assert!(shown.starts_with("a is held by worker-8 (token "), "{shown}");
    assert!(shown.ends_with("\n  description 1\n  by=me\n  state=half done\n"), "{shown}");
    let granted = watch.line();
    let changed: Value = serde_json::from_str(&watch.line()).unwrap();
    assert_eq!((&changed["kind"], &changed["holder"]), (&"KIND_CHANGED".into(), &"worker-8".into()), "{granted}");

    assert_eq!(describe(&["--number", "5", "--json"]).expect(0).json()["number"], "5");
    describe(&["--number", "4", "k=v"]).expect(1).says("a has a newer description, with number 5: nothing was changed");
    let shown = server.run(&["get", "a", "--json"]).json();
    assert!(shown["lock"]["holders"][0]["metadata"].is_null(), "without a pair none is left: {shown}");
    describe(&["k"]).expect(2).says("must be KEY=VALUE");
    server.run(&["release", "a", "--lease-id", taken.field("lease id")]).expect(0);
    describe(&["k=v"]).expect(1).says("the lease of a was released: stop the work");
}
