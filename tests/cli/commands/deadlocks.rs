//! `deadlocks`: owners of real locks that wait for each other.

use crate::support::{Ended, Process, Server, await_that};

/// Holds the lock for an owner.
fn hold(server: &Server, lock: &str, owner: &str, words: &[&str]) -> Ended {
    let acquire = ["acquire", lock, "--ttl", "2m", "--owner", owner, "--holder", owner];
    server.run(&[&acquire, words].concat()).expect(0)
}

/// Waits for the lock, as its only waiter so far or the one after so many.
fn wait(server: &Server, lock: &str, owner: &[&str], before: u64) -> Process {
    let waiter = server.spawn(&[&["acquire", lock, "--ttl", "2m", "--wait", "2m"], owner].concat());
    await_that("a waiter", || server.waiters(lock) == before + 1);
    waiter
}

#[test]
fn two_owners_that_wait_for_each_other_are_reported_until_one_releases() {
    let server = Server::start();
    server.run(&["deadlocks"]).expect(0).says("no owners wait for each other");
    let (one, _) = (hold(&server, "acc/1", "job-1", &[]), hold(&server, "acc/2", "job-2", &[]));
    let waits_2 = wait(&server, "acc/2", &["--owner", "job-1", "--holder", "w1"], 0);
    server.run(&["deadlocks"]).expect(0).says("no owners wait for each other");
    let waits_1 = wait(&server, "acc/1", &["--owner", "job-2", "--holder", "w2"], 0);
    let found = server.run(&["deadlocks"]).expect(1).says("several things at a time");
    let lines: Vec<_> = found.out.lines().collect();
    assert!(lines.len() == 5 && lines[0] == "deadlock of job-2 and job-1", "{found:?}");
    assert!(
        lines[1].starts_with("  job-2 has waited for acc/1 for ") && lines[1].ends_with("(w2, exclusive)"),
        "{found:?}"
    );
    let holds = format!(" (job-1, token {})", one.field("token"));
    assert!(lines[2].starts_with("    job-1 has held it for ") && lines[2].ends_with(&holds), "{found:?}");
    assert!(lines[3].starts_with("  job-1 has waited for acc/2 for "), "{found:?}");
    server.run(&["deadlocks", "acc/1"]).expect(0).says("no owners wait for each other");

    let exact = server.run(&["deadlocks", "acc/", "--json"]).expect(1).json();
    let waits = &exact["deadlocks"][0];
    assert_eq!((&waits[0]["lockName"], &waits[1]["waiter"]["owner"]), (&"acc/1".into(), &"job-1".into()));
    assert_eq!(waits[0]["holders"][0]["fencingToken"], one.field("token"));

    server.run(&["release", "acc/1", "--lease-id", one.field("lease id")]).expect(0);
    waits_1.ended().expect(0);
    server.run(&["deadlocks"]).expect(0).says("no owners wait for each other");
    drop(waits_2);
}

#[test]
fn readers_are_in_a_deadlock_with_the_writer_that_waits_for_them() {
    let server = Server::start();
    hold(&server, "book", "reader-1", &["--shared"]);
    hold(&server, "book", "reader-2", &["--shared"]);
    hold(&server, "index", "writer", &[]);
    let _writes = wait(&server, "book", &["--owner", "writer"], 0);
    server.run(&["deadlocks"]).expect(0);
    let _reads = wait(&server, "index", &["--owner", "reader-2", "--shared"], 0);
    let found = server.run(&["deadlocks"]).expect(1);
    assert!(found.out.starts_with("deadlock of writer and reader-2\n"), "{found:?}");
    assert!(found.out.contains(", shared)\n") && !found.out.contains("reader-1"), "{found:?}");
}

#[test]
fn three_owners_and_those_without_one() {
    let server = Server::start();
    for owner in ["1", "2", "3"] {
        hold(&server, owner, owner, &[]);
    }
    let _stranger = wait(&server, "1", &[], 0);
    let _waiting = [
        wait(&server, "2", &["--owner", "1"], 0),
        wait(&server, "3", &["--owner", "2"], 0),
        wait(&server, "1", &["--owner", "3"], 1),
    ];
    let found = server.run(&["deadlocks"]).expect(1).says("without an owner (--owner): 1;");
    let first = found.out.lines().next().unwrap();
    for part in ["1", "2", "3", "a request without an owner"] {
        assert!(first.contains(part), "{found:?}");
    }
    assert!(found.out.contains("\n    a request without an owner is before it, for "), "{found:?}");
}
