//! A GC pause, end to end: with real processes, signals, server and database.
//!
//! A worker acquires a lock and is paused before it writes: by a garbage collection, by swapping, by the migration of a
//! virtual machine. Meanwhile its lease expires, and another worker acquires the lock and writes. Then the first worker
//! resumes and writes. No lock service can prevent that. The store can, if it has a guard that checks the token.
#![allow(clippy::unwrap_used, reason = "test code")]

mod store;
#[path = "../../support/stores.rs"]
mod stores;
#[path = "../../support/binary.rs"]
mod support;
mod worker;

use nix::sys::signal::Signal;
use std::time::Duration;
use store::Store;
use stores::Stores;
use support::{Server, await_that};
use worker::{DOCUMENT, LOCK, Worker};

/// The TTL of the worker that is paused.
const TTL: Duration = Duration::from_secs(2);
/// Longer than any test.
const LONG: Duration = Duration::from_secs(60 * 60);
const NO_WAIT: Duration = Duration::ZERO;

/// A kind of store.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Sqlite,
    Postgres,
    Mysql,
    Redis,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Sqlite, Self::Postgres, Self::Mysql, Self::Redis];
}

/// A server and a store, for workers.
struct Scene {
    server: Server,
    /// Where the store is.
    place: String,
    _folder: tempfile::TempDir,
    _stores: Option<Stores>,
}

impl Scene {
    fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let start = |name| {
            let (stores, url) = Stores::start(name);
            (url, Some(stores))
        };
        let (place, stores) = match kind {
            Kind::Sqlite => (folder.path().join("documents.sqlite").to_str().unwrap().to_owned(), None),
            Kind::Postgres => start("postgres"),
            Kind::Mysql => start("mysql"),
            Kind::Redis => start("redis"),
        };
        Self { server: Server::start(), place, _folder: folder, _stores: stores }
    }

    fn store(&self) -> Box<dyn Store> {
        store::open(&self.place)
    }

    fn worker(&self, ttl: Duration, wait: Duration) -> Worker {
        Worker::start(&self.server.url, &self.place, ttl, wait)
    }

    fn document(&self) -> Option<String> {
        self.store().read(DOCUMENT)
    }

    fn token(&self) -> u64 {
        let lock = self.server.run(&["get", LOCK, "--json"]).expect(0).json();
        lock["lock"]["holders"][0]["fencingToken"].as_str().unwrap().parse().unwrap()
    }

    /// A paused worker, and a second one that waited for the lock and holds it now.
    fn paused_worker_and_successor(&self) -> (Worker, Worker) {
        let first = self.worker(TTL, NO_WAIT);
        let token = first.token();
        let second = self.worker(LONG, LONG);
        await_that("the second worker is queued", || self.server.waiters(LOCK) == 1);
        first.pause();
        let newer = second.token();
        assert!(newer > token, "{newer} {token}");
        assert_eq!(self.token(), newer);
        (first, second)
    }
}

#[test]
fn the_write_of_a_holder_that_was_paused_past_its_lease_is_rejected() {
    for kind in Kind::ALL {
        let scene = Scene::new(kind);
        let (mut first, mut second) = scene.paused_worker_and_successor();
        let newer = scene.token();
        assert_eq!(second.order("write by the second"), "accepted");
        // Orders to the paused worker are its first actions after it resumes.
        first.send("look");
        first.send("write by the first");
        first.signal(Signal::SIGCONT);
        assert_eq!(first.answer(), "valid false, lost Some(Silence)", "the client knows at once");
        assert_eq!(first.answer(), format!("rejected, highest {newer}"));
        assert_eq!(scene.document().as_deref(), Some("by the second"));
        // It cannot release the lease of its successor either. No server may have said yet how its own ended.
        let end = first.order("release");
        assert!(["not known", "Expired", "Superseded"].contains(&end.as_str()), "{end}");
        assert_eq!(scene.token(), newer);
        assert_eq!(second.order("write by the second again"), "accepted");
        assert_eq!(second.order("release"), "Released");
    }
}

/// The control: the same without the guard. It shows that the test can fail.
#[test]
fn without_the_guard_a_stale_write_overwrites_the_newer_one() {
    for kind in Kind::ALL {
        let scene = Scene::new(kind);
        let (mut first, mut second) = scene.paused_worker_and_successor();
        assert_eq!(second.order("write-unchecked by the second"), "written");
        first.send("write-unchecked by the first");
        first.signal(Signal::SIGCONT);
        assert_eq!(first.answer(), "written");
        assert_eq!(scene.document().as_deref(), Some("by the first"), "the write of the holder is lost");
        assert_eq!(second.order("look"), "valid true, lost None");
    }
}

/// The store rejects an earlier holder only after it has seen the newer token. So holders raise the fence first, then
/// read, then write.
#[test]
fn a_successor_that_raises_the_fence_before_it_reads_sees_all_earlier_writes() {
    for kind in Kind::ALL {
        let scene = Scene::new(kind);
        let (mut first, mut second) = scene.paused_worker_and_successor();
        first.send("write by the first, late");
        first.signal(Signal::SIGCONT);
        assert_eq!(first.answer(), "accepted", "the store has not seen the newer token");
        assert_eq!(second.order("enter"), "accepted");
        let read = scene.document().unwrap();
        assert!(first.order("write by the first, too late").starts_with("rejected"));
        assert_eq!(scene.document().unwrap(), read);
        assert_eq!(second.order(&format!("write {read}; by the second")), "accepted");
        assert_eq!(scene.document().as_deref(), Some("by the first, late; by the second"));
    }
}

#[test]
fn the_writes_of_a_valid_holder_are_accepted() {
    let scene = Scene::new(Kind::Sqlite);
    let ttl = Duration::from_secs(3);
    let mut worker = scene.worker(ttl, NO_WAIT);
    let token = worker.token();
    assert_eq!(worker.order("write one"), "accepted");
    await_that("the lease is older than its TTL", || {
        let lock = scene.server.run(&["get", LOCK, "--json"]).expect(0).json();
        let held_since = lock["lock"]["holders"][0]["heldSince"].as_str().expect("a holder").trim_end_matches('s');
        held_since.parse::<f64>().unwrap() > 1.5 * ttl.as_secs_f64()
    });
    assert_eq!(worker.order("look"), "valid true, lost None");
    assert_eq!(worker.order("write two"), "accepted");
    // A pause shorter than the TTL changes nothing.
    worker.pause();
    worker.send("look");
    worker.signal(Signal::SIGCONT);
    assert_eq!(worker.answer(), "valid true, lost None");
    assert_eq!(worker.order("write three"), "accepted");
    assert_eq!(scene.token(), token);
    assert_eq!(worker.order("release"), "Released");
    // The next holder writes with a higher token.
    let mut next = scene.worker(ttl, NO_WAIT);
    assert!(next.token() > token);
    assert_eq!(next.order("write four"), "accepted");
    assert_eq!(scene.document().as_deref(), Some("four"));
}

/// The memory store loses its leases at a restart, so a lease with an hour left no longer excludes others. Tokens still
/// rise.
#[test]
fn the_writes_of_a_holder_are_rejected_after_a_restart_that_lost_its_lease() {
    let mut scene = Scene::new(Kind::Sqlite);
    let mut first = scene.worker(LONG, NO_WAIT);
    let token = first.token();
    assert_eq!(first.order("write by the first"), "accepted");
    first.pause();
    scene.server = scene.server.replace();
    let mut second = scene.worker(LONG, NO_WAIT);
    let newer = second.token();
    assert!(newer > token, "{newer} {token}");
    assert_eq!(second.order("write by the second"), "accepted");
    first.send("write by the first again");
    first.signal(Signal::SIGCONT);
    assert_eq!(first.answer(), format!("rejected, highest {newer}"));
    assert_eq!(scene.document().as_deref(), Some("by the second"));
    // The client attaches its lease to the new server, which does not know it.
    let lost = first.order("await-lost");
    assert!(lost.starts_with(&format!("{LOCK} (token {token}) is lost: ")), "{lost}");
    assert_eq!(first.order("look").split_once(',').unwrap().0, "valid false");
    assert_eq!(second.order("look"), "valid true, lost None");
}
