//! The story of the GC pause, end to end: real processes, real signals, a real server, a real database.
//!
//! A worker takes a lock, is about to write, and stands still: a garbage collection, a swap, a machine that is moved.
//! Meanwhile its lease ends, another worker gets the lock and writes. Then the first wakes up, in the middle of what it
//! was about to do, and writes. No lock service can prevent that; the store can, if it is shown the token.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod fence;
mod fence_cases;
#[path = "../../support/binary.rs"]
mod support;
mod worker;

use fence::Store;
use nix::sys::signal::Signal;
use std::{path::PathBuf, time::Duration};
use support::{Server, await_that};
use worker::{DOCUMENT, LOCK, Worker};

/// That of who is paused.
const TTL: Duration = Duration::from_secs(2);
/// One that nobody in these tests outlives.
const LONG: Duration = Duration::from_secs(60 * 60);
const TRY: Duration = Duration::ZERO;

/// A server, a database, and who works with them.
struct Scene {
    server: Server,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        Self { server: Server::start(), folder: tempfile::tempdir().unwrap() }
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("documents.sqlite")
    }

    fn worker(&self, ttl: Duration, wait: Duration) -> Worker {
        Worker::start(&self.server.url, &self.database(), ttl, wait)
    }

    fn document(&self) -> Option<String> {
        Store::open(&self.database()).unwrap().read(DOCUMENT).unwrap()
    }

    fn token(&self) -> u64 {
        let lock = self.server.run(&["get", LOCK, "--json"]).expect(0).json();
        lock["lock"]["holders"][0]["fencingToken"].as_str().unwrap().parse().unwrap()
    }

    /// A worker that is paused, and a second one, in line behind it, that has got the lock since.
    fn paused_and_succeeded(&self) -> (Worker, Worker) {
        let first = self.worker(TTL, TRY);
        let token = first.token();
        let second = self.worker(LONG, LONG);
        await_that("the second one waits", || self.server.waiters(LOCK) == 1);
        first.pause();
        let newer = second.token();
        assert!(newer > token, "{newer} {token}");
        assert_eq!(self.token(), newer);
        (first, second)
    }
}

#[test]
fn the_write_of_a_holder_that_was_paused_past_its_lease_is_rejected() {
    let scene = Scene::new();
    let (mut first, mut second) = scene.paused_and_succeeded();
    let newer = scene.token();
    assert_eq!(second.does("write by the second"), "accepted");
    // Told while it is paused: these are the first things that it does when it wakes up.
    first.tell("look");
    first.tell("write by the first");
    first.signal(Signal::SIGCONT);
    assert_eq!(first.says(), "valid false, lost Some(ValidityOver)", "it knows the moment it wakes up");
    assert_eq!(first.says(), format!("rejected, highest {newer}"));
    assert_eq!(scene.document().as_deref(), Some("by the second"));
    // Nor can it give back what is another's.
    let end = first.does("release");
    assert!(["Expired", "Superseded"].contains(&end.as_str()), "{end}");
    assert_eq!(scene.token(), newer);
    assert_eq!(second.does("write by the second again"), "accepted");
    assert_eq!(second.does("release"), "Released");
}

/// The control: the same story against a store that knows nothing of tokens. It shows that the test can fail.
#[test]
fn without_the_token_that_write_is_accepted_and_destroys_the_newer_one() {
    let scene = Scene::new();
    let (mut first, mut second) = scene.paused_and_succeeded();
    assert_eq!(second.does("write-unchecked by the second"), "accepted");
    first.tell("write-unchecked by the first");
    first.signal(Signal::SIGCONT);
    assert_eq!(first.says(), "accepted");
    assert_eq!(scene.document().as_deref(), Some("by the first"), "what the lock's holder wrote is gone");
    assert_eq!(second.does("look"), "valid true, lost None");
}

/// What a token cannot do: the store rejects an earlier holder from the newer token's first appearance on, not before.
/// So raise the fence first, then read, then write.
#[test]
fn a_successor_that_raises_the_fence_before_it_reads_overlooks_nothing() {
    let scene = Scene::new();
    let (mut first, mut second) = scene.paused_and_succeeded();
    first.tell("write by the first, late");
    first.signal(Signal::SIGCONT);
    assert_eq!(first.says(), "accepted", "the store has not seen the newer token, so it cannot know");
    assert_eq!(second.does("enter"), "accepted");
    let read = scene.document().unwrap();
    assert!(first.does("write by the first, too late").starts_with("rejected"));
    assert_eq!(scene.document().unwrap(), read);
    assert_eq!(second.does(&format!("write {read}; by the second")), "accepted");
    assert_eq!(scene.document().as_deref(), Some("by the first, late; by the second"));
}

#[test]
fn a_holder_whose_lease_is_fine_is_not_rejected() {
    let scene = Scene::new();
    let ttl = Duration::from_secs(3);
    let mut worker = scene.worker(ttl, TRY);
    let token = worker.token();
    assert_eq!(worker.does("write one"), "accepted");
    await_that("it has been kept alive for longer than its TTL", || {
        let lock = scene.server.run(&["get", LOCK, "--json"]).expect(0).json();
        let held_since = lock["lock"]["holders"][0]["heldSince"].as_str().expect("it is held").trim_end_matches('s');
        held_since.parse::<f64>().unwrap() > 1.5 * ttl.as_secs_f64()
    });
    assert_eq!(worker.does("look"), "valid true, lost None");
    assert_eq!(worker.does("write two"), "accepted");
    // A pause that it survives changes nothing either.
    worker.pause();
    worker.tell("look");
    worker.signal(Signal::SIGCONT);
    assert_eq!(worker.says(), "valid true, lost None");
    assert_eq!(worker.does("write three"), "accepted");
    assert_eq!(scene.token(), token);
    assert_eq!(worker.does("release"), "Released");
    // The next one takes up where it left.
    let mut next = scene.worker(ttl, TRY);
    assert!(next.token() > token);
    assert_eq!(next.does("write four"), "accepted");
    assert_eq!(scene.document().as_deref(), Some("four"));
}

/// The memory store forgets at a restart: a lease that has an hour to go excludes nobody any more. The tokens rise all
/// the same.
#[test]
fn after_a_restart_that_forgot_everything_the_old_holder_is_still_rejected() {
    let mut scene = Scene::new();
    let mut first = scene.worker(LONG, TRY);
    let token = first.token();
    assert_eq!(first.does("write by the first"), "accepted");
    first.pause();
    scene.server = scene.server.replace();
    let mut second = scene.worker(LONG, TRY);
    let newer = second.token();
    assert!(newer > token, "{newer} {token}");
    assert_eq!(second.does("write by the second"), "accepted");
    first.tell("write by the first again");
    first.signal(Signal::SIGCONT);
    assert_eq!(first.says(), format!("rejected, highest {newer}"));
    assert_eq!(scene.document().as_deref(), Some("by the second"));
    // It attaches its lease to the new server, and is told.
    let lost = first.does("await-lost");
    assert!(lost.starts_with("lock lost: "), "{lost}");
    assert_eq!(first.does("look").split_once(',').unwrap().0, "valid false");
    assert_eq!(second.does("look"), "valid true, lost None");
}
