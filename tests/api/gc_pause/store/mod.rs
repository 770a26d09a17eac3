//! Stores that check fencing tokens, with the guards of the Rust client: SQLite, PostgreSQL, MariaDB and Redis.
//!
//! The guard keeps the highest fencing token that the store has seen, and the grant of that token. Each write includes
//! the token of its holder. The store checks and raises the token in the same transaction as the write, so no other
//! write comes between. This needs no clock and no lock server. It relies only on tokens that rise with each grant.

mod cases;
mod mysql;
mod postgres;
mod redis;
mod sqlite;

use fencepost_guards::{Grant, NoFence, RaiseError};
use std::{fmt::Debug, path::Path};

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Accepted,
    /// A newer holder has raised the fence to this token.
    Rejected {
        highest: u64,
    },
    /// A reader has not taken its first step.
    NotRaised,
    /// A grant of a semaphore has several permits, and so no fence.
    NoSlot,
    /// A grant of a semaphore is not that of a reader.
    NotShared,
}

/// Documents in a store.
pub(crate) trait Store {
    /// Writes, unless a newer holder has raised the fence.
    fn write(&mut self, grant: Grant<'_>, name: &str, body: &str) -> Written;

    /// Only raises the fence. No earlier holder can change what the caller reads afterwards.
    fn enter(&mut self, grant: Grant<'_>) -> Written;

    /// The first step of a reader.
    fn raise_shared(&mut self, grant: Grant<'_>) -> Written;

    /// The second step of a reader, and a write.
    fn work(&mut self, grant: Grant<'_>, name: &str, body: &str) -> Written;

    /// Writes without a check, like a store without a guard.
    fn write_unchecked(&mut self, name: &str, body: &str);

    fn read(&mut self, name: &str) -> Option<String>;
}

/// Opens the store at a URL of PostgreSQL, MySQL or Redis, or a path for SQLite.
pub(crate) fn open(place: &str) -> Box<dyn Store> {
    match place.split_once("://").map(|(scheme, _)| scheme) {
        Some("postgresql") => Box::new(postgres::Postgres::open(place)),
        Some("mysql") => Box::new(mysql::Mysql::open(place)),
        Some("redis") => Box::new(redis::Redis::open(place)),
        _ => Box::new(sqlite::Sqlite::open(Path::new(place))),
    }
}

/// What a guard said. Anything but a stale token is a failure of the test.
fn written<E: Debug>(raised: Result<(), RaiseError<E>>) -> Written {
    match raised {
        Ok(()) => Written::Accepted,
        Err(RaiseError::Stale(stale)) => Written::Rejected { highest: stale.newest },
        Err(RaiseError::NotRaised { .. }) => Written::NotRaised,
        Err(RaiseError::NoFence(NoFence::SeveralPermits { .. })) => Written::NoSlot,
        Err(RaiseError::NoFence(NoFence::NotShared(_))) => Written::NotShared,
        Err(error) => panic!("{error:?}"),
    }
}

/// A runtime for a client of a store, apart from that of the lock's client.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
