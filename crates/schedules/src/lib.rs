//! The memory store and the lock service, over primitives that decide the order of events.
//!
//! This is the server's own code: the files below `src` are built here a second time, with `sync` and `tokio` replaced.
//! Then every lock that is taken, every atomic that is touched and every await is a place where another task may go
//! first, and [shuttle] chooses which one does, schedule after schedule. A task that nothing wakes is a deadlock, which
//! it reports.
//!
//! What it does not see: the order of memory accesses weaker than sequentially consistent, and anything inside tokio's
//! `Notify` and `CancellationToken`, which are the real ones, each of their operations one step.
//!
//! [shuttle]: https://docs.rs/shuttle

// With them come the server's unit tests, which are run where they belong.
#![cfg(not(test))]

// The sources say `tokio::time`, `tokio::task` and `tokio::select`: here they find those of this crate.
extern crate self as tokio;

mod check;
mod select;
pub mod store;
pub mod sync;
pub mod task;
pub mod time;

#[path = "../../../src/clock.rs"]
pub mod clock;
#[path = "../../../src/domain/mod.rs"]
pub mod domain;
#[path = "../../../src/locks/mod.rs"]
pub mod locks;

pub use check::check;
#[doc(hidden)]
pub use real_tokio;
pub use real_tokio::runtime;
