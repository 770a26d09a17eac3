//! `status`, the times and the filter of `watch`, and what a drain means for those who wait.

use crate::{
    redis::Redis,
    support::{Process, Server, await_that, fencepost},
};
use nix::sys::signal::Signal;

#[test]
fn a_ready_server_shows_its_leases_and_waiters() {
    let server = Server::start();
    for lock in ["a", "b"] {
        server.run(&["acquire", lock, "--ttl", "1m"]).expect(0);
    }
    let waiting = server.spawn(&["acquire", "a", "--wait", "1m"]);
    await_that("a waiter", || server.waiters("a") == 1);
    let shown = server.run(&["status"]).expect(0);
    assert_eq!(shown.field("server"), format!("{} is ready, store memory", server.url));
    assert!(shown.field("store").starts_with("answered in "), "{shown:?}");
    assert_eq!((shown.field("leases"), shown.field("waiters")), ("2", "1"));
    let json = server.run(&["status", "--json"]).expect(0).json();
    assert_eq!(json["servers"][0]["store"], "memory");
    assert_eq!((&json["servers"][0]["state"], &json["store"]["leases"]), (&"ready".into(), &2.into()));
    waiting.signal(Signal::SIGTERM);
}

#[test]
fn each_server_shows_the_kind_of_its_store_and_nothing_else_of_it() {
    let redis = Redis::start(&["--requirepass", "s3cret"]);
    let store = format!("redis://:s3cret@127.0.0.1:{}", redis.port);
    let (shared, alone) = (Server::start_with(&["--store", &store]), Server::start());
    let both = format!("{},{}", shared.url, alone.url);
    let status = |more: &[&str]| Process::start(fencepost(&["status", "--server", &both]).args(more)).ended();
    // A server listens before it has reached its store.
    await_that("both servers are ready", || status(&[]).code == 0);
    let text = status(&[]);
    assert!(text.out.contains(&format!("{} is ready, store redis\n", shared.url)), "{text:?}");
    assert!(text.out.contains(&format!("{} is ready, store memory\n", alone.url)), "{text:?}");
    let json = status(&["--json"]);
    assert_eq!(json.json()["servers"][0]["store"], "redis");
    for shown in [text.out, json.out] {
        assert!(!shown.contains("s3cret") && !shown.contains(&redis.port.to_string()), "{shown}");
    }
}

#[test]
fn servers_that_are_not_ready_are_named() {
    let server = Server::start();
    // Nothing listens on port 1.
    let both = format!("{},127.0.0.1:1", server.url);
    let shown = Process::start(&mut fencepost(&["status", "--server", &both])).ended().expect(1);
    assert!(
        shown.out.contains("127.0.0.1:1 is unreachable: ") && shown.out.contains(" is ready, store memory\n"),
        "{shown:?}"
    );
    Process::start(&mut fencepost(&["status", "--server", "127.0.0.1:1"])).ended().expect(69).says("cannot reach");
    Process::start(&mut fencepost(&["status", "--server", "::1"])).ended().expect(64).says("needs brackets");
}

#[test]
fn events_have_a_time_and_can_be_those_of_one_lock() {
    let server = Server::start();
    let watch = server.spawn(&["watch", "--name", "orders/4"]);
    let json = server.spawn(&["watch", "--name", "orders/4", "--json"]);
    assert!(json.line().contains("KIND_STARTED"));
    // The other watch is a stream of its own: it has started once it reports an event.
    let mut events = Vec::new();
    await_that("an event of the watch", || {
        for lock in ["orders/42", "orders/4"] {
            let taken = server.run(&["acquire", lock, "--holder", "worker-7"]).expect(0);
            server.run(&["release", lock, "--lease-id", taken.field("lease id")]).expect(0);
        }
        events = watch.lines_so_far();
        !events.is_empty()
    });
    for line in &events {
        let (time, event) = line.split_once("  ").unwrap();
        assert!(humantime::parse_rfc3339(time).is_ok() && time.ends_with('Z'), "{line}");
        assert!(event.contains("  orders/4  ") && event.ends_with("worker-7"), "{line}");
    }
    assert!(json.line().contains(r#""lockName":"orders/4","#));
    server.run(&["watch", "--name", ""]).expect(2);
    server.run(&["watch", "a", "--name", "b"]).expect(2);
}

#[test]
fn a_wait_on_a_drained_server_says_that_nothing_was_granted() {
    let server = Server::start();
    server.run(&["acquire", "a", "--ttl", "1m"]).expect(0);
    let commands = [&["acquire", "a", "--wait", "3s"][..], &["run", "a", "--wait", "3s", "true"]];
    let waiting = commands.map(|command| server.spawn(command));
    await_that("the waiters", || server.waiters("a") == 2);
    server.run(&["drain", "--yes"]).expect(0);
    for waiting in waiting {
        let ended = waiting.ended().expect(69).says("so nothing was granted");
        assert!(!ended.err.contains("may or may not"), "{ended:?}");
    }
    server.process.ended().expect(0);
}
