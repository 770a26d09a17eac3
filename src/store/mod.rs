//! Where leases and queues live. One trait that speaks commands and outcomes, so that a single Redis, a cluster of
//! them, or a quorum fits behind it as well as memory does.

mod commands;
mod error;
pub mod memory;
mod notice;
pub mod redis;

pub use commands::{Kept, LockStore, Page, Timed};
pub use error::StoreError;
pub use memory::MemoryStore;
pub use notice::{Event, EventKind, Notices};
pub use redis::{RedisStore, doctor, links::RedisUrl};
