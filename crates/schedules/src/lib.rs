//! The memory store and the lock service, over primitives that control the order of events.
//!
//! This compiles the server's own sources below `src` a second time, with `sync` and `tokio` replaced. Every lock
//! operation, every atomic operation and every await becomes a scheduling point, at which [shuttle] chooses the task
//! that runs next, differently in each schedule. It reports a task that nothing wakes as a deadlock.
//!
//! Not covered: memory orderings weaker than sequentially consistent, and the inside of tokio's `Notify` and
//! `CancellationToken`, which are the real ones: each of their operations is one step.
//!
//! [shuttle]: https://docs.rs/shuttle

// The server's unit tests come with its sources, and run in its own package.
#![cfg(not(test))]

// The sources use `tokio::time`, `tokio::task` and `tokio::select`, which resolve to this crate.
extern crate self as tokio;

mod check;
mod select;
pub mod store;
pub mod sync;
pub mod task;
pub mod telemetry;
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
