//! `waiters`, and what a request says of itself: its owner, and how many may wait before it.

use crate::support::{Process, Server, await_that};
use fencepost_client::Client;
use futures_util::future::join_all;
use nix::sys::signal::Signal;
use std::{collections::BTreeSet, future::IntoFuture, time::Duration};

/// Starts a command that waits for the lock, as the last one of so many.
fn wait(server: &Server, waiters: u64, words: &[&str]) -> Process {
    let waiter = server.spawn(&[&["acquire", "a", "--wait", "1m"], words].concat());
    await_that("a waiter", || server.waiters("a") == waiters);
    waiter
}

#[test]
fn a_queue_is_shown_in_its_order() {
    let server = Server::start();
    server.run(&["waiters", "a"]).expect(0).says("nobody waits for a");
    server.run(&["acquire", "a", "--holder", "worker-7"]).expect(0);
    let _waiting = [
        wait(&server, 1, &["--holder", "worker-8", "--owner", "job-9"]),
        wait(&server, 2, &["--holder", "worker-9", "--shared"]),
    ];
    let shown = server.run(&["waiters", "a"]).expect(0).out;
    let rows: Vec<Vec<_>> = shown.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    assert_eq!(rows[0], ["HOLDER", "OWNER", "IDENTITY", "MODE"]);
    assert_eq!(rows[1..], [["worker-8", "job-9", "-", "exclusive"], ["worker-9", "-", "-", "shared"]]);
    let exact = server.run(&["waiters", "a", "--json"]).expect(0).json();
    assert_eq!(exact["lock"]["holders"][0]["holder"], "worker-7");
    assert_eq!(
        (&exact["waiters"][0]["owner"], &exact["waiters"][1]["mode"]),
        (&"job-9".into(), &"LOCK_MODE_SHARED".into())
    );
    assert_ne!(exact["waiters"][0]["waiterId"], exact["waiters"][1]["waiterId"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_shown_to_its_end() {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let client = Client::new(&server.url).unwrap();
    let _held = client.acquire("a").await.unwrap();
    let labels = (0..205).map(|index| format!("worker-{index}"));
    let waits =
        labels.clone().map(|label| client.acquire("a").holder(label).wait(Duration::from_secs(60)).into_future());
    let waiting = tokio::spawn(join_all(waits));
    let shown = tokio::task::spawn_blocking(move || {
        await_that("all waiters", || server.waiters("a") == 205);
        (server.run(&["waiters", "a", "--json"]).expect(0).json(), server)
    });
    let (shown, _server) = shown.await.unwrap();
    let holders =
        shown["waiters"].as_array().unwrap().iter().map(|waiter| waiter["holder"].as_str().unwrap().to_owned());
    assert_eq!(holders.clone().collect::<BTreeSet<_>>(), labels.collect::<BTreeSet<_>>());
    assert_eq!(holders.count(), 205, "each once");
    waiting.abort();
}

#[test]
fn a_request_is_not_queued_behind_too_many_others() {
    let server = Server::start();
    let taken = server.run(&["acquire", "a", "--holder", "worker-7"]).expect(0);
    let waiter = wait(&server, 1, &["--max-waiters", "1"]);
    let refused = |words: &[&str]| {
        let said = server.run(words).expect(75).says("a is held by worker-7").says("1 waiter: not queued, since");
        assert!(!said.err.contains("timed out"), "{said:?}");
    };
    let bound = ["--wait", "1m", "--max-waiters", "1"];
    refused(&[&["acquire", "a"], &bound[..]].concat());
    refused(&[&["run", "a"], &bound[..], &["true"]].concat());
    refused(&[&["run", "a", "--also", "b"], &bound[..], &["true"]].concat());
    let answer = server.run(&[&["acquire", "a", "--json"], &bound[..]].concat()).expect(75).json();
    assert_eq!((&answer["outcome"], &answer["waiters"]), (&"OUTCOME_CONTENDED".into(), &1.into()));
    assert_eq!(server.waiters("a"), 1);
    server.run(&["release", "a", "--lease-id", taken.field("lease id")]).expect(0);
    waiter.ended().expect(0);
    server.run(&["acquire", "b", "--max-waiters", "1"]).expect(2).says("--wait");
    server.run(&["acquire", "b", "--wait", "1s", "--max-waiters", "0"]).expect(2).says("--max-waiters");
}

#[test]
fn an_owner_is_shown_with_its_locks() {
    let server = Server::start();
    let run = server.spawn(&[
        "run",
        "a",
        "--also",
        "b",
        "--owner",
        "job-9",
        "--holder",
        "w",
        "--",
        "sh",
        "-c",
        "echo on; exec sleep 60",
    ]);
    run.line();
    for lock in ["a", "b"] {
        assert!(server.run(&["get", lock]).expect(0).out.contains("\n  owner     job-9\n"));
    }
    assert!(server.run(&["ls"]).expect(0).out.contains("  w (owner job-9)  "));
    run.signal(Signal::SIGTERM);
    run.ended().expect(143);
}
