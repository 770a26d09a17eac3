//! `status`, the times and the filter of `watch`, and what a drain means for those who wait.

use crate::{
    redis::Redis,
    support::{Process, Server, await_some, await_that, fencepost},
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
    let json = server.run(&["status", "--json"]).expect(0).json();
    let id = json["servers"][0]["store_id"].as_str().unwrap();
    assert_eq!(shown.field("server"), format!("{} is ready, store memory {id}", server.url));
    assert!(shown.field("store").starts_with("answered in "), "{shown:?}");
    assert_eq!((shown.field("leases"), shown.field("waiters")), ("2", "1"));
    assert_eq!(json["servers"][0]["store"], "memory");
    assert_eq!((&json["servers"][0]["state"], &json["store"]["leases"]), (&"ready".into(), &2.into()));
    waiting.signal(Signal::SIGTERM);
}

#[test]
fn servers_that_do_not_share_a_store_are_told_apart() {
    let redis = Redis::start(&["--requirepass", "s3cret"]);
    let store = |database: u8| format!("redis://:s3cret@127.0.0.1:{}/{database}", redis.port);
    let (url, other_url) = (store(0), store(1));
    let [one, two] = [(); 2].map(|()| Server::start_with(&["--store", &url]));
    let (other, alone) = (Server::start_with(&["--store", &other_url]), Server::start());
    let all = format!("{},{},{},{}", one.url, two.url, other.url, alone.url);
    let shared = format!("{},{}", one.url, two.url);
    let run = |servers: &str, words: &[&str]| Process::start(fencepost(words).args(["--server", servers])).ended();
    let ids = || {
        let status = run(&all, &["status", "--json"]).json();
        let id = |number: usize| Some(status["servers"][number]["store_id"].as_str()?.to_owned());
        Some([id(0)?, id(1)?, id(2)?, id(3)?])
    };
    // A server listens before it has reached its store.
    let ids = await_some("all servers know their stores", ids);
    await_that("both servers are ready", || run(&shared, &["status"]).code == 0);
    assert!(ids[0] == ids[1] && ids[0] != ids[2] && ids[0] != ids[3] && ids[2] != ids[3], "{ids:?}");
    let text = run(&all, &["status"]).expect(1);
    assert!(text.out.contains(&format!("{} is ready, store redis {}\n", one.url, ids[0])), "{text:?}");
    assert!(text.out.contains(&format!("{} is ready, store memory {}\n", alone.url, ids[3])), "{text:?}");
    assert!(text.out.contains("these servers do not share a store"), "{text:?}");
    let json = run(&all, &["status", "--json"]).expect(1);
    assert!(json.json()["divided"].as_str().unwrap().contains("do not share a store"), "{json:?}");
    for shown in [text.out, json.out] {
        assert!(!shown.contains("s3cret") && !shown.contains(&redis.port.to_string()), "{shown}");
    }
    let divided = format!("{},{}", one.url, alone.url);
    for words in [&["acquire", "a"][..], &["hold", "a"], &["run", "a", "--", "true"]] {
        let words: Vec<_> = [&words[..1], &["--server", &divided], &words[1..]].concat();
        Process::start(&mut fencepost(&words)).ended().expect(64).says("do not share a store");
    }
    assert!(one.is_free("a") && alone.is_free("a"));
    run(&shared, &["acquire", "a"]).expect(0);
    // Who is away is not waited for.
    run(&format!("{},127.0.0.1:1", one.url), &["acquire", "b"]).expect(0);
    // The store that Redis forgets and gets back is the same one.
    redis.command(&["FLUSHALL"]);
    await_that("the servers are ready again", || {
        run(&shared, &["status"]).code == 0 && run(&shared, &["get", "b"]).code == 0
    });
    let after = run(&shared, &["status", "--json"]).json();
    assert_eq!(after["servers"][0]["store_id"].as_str(), Some(ids[0].as_str()), "{after}");
}

#[test]
fn servers_that_are_not_ready_are_named() {
    let server = Server::start();
    // Nothing listens on port 1.
    let both = format!("{},127.0.0.1:1", server.url);
    let shown = Process::start(&mut fencepost(&["status", "--server", &both])).ended().expect(1);
    assert!(
        shown.out.contains("127.0.0.1:1 is unreachable: ") && shown.out.contains(" is ready, store memory "),
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
