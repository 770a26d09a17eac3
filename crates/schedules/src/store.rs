//! The store without Redis.

#[path = "../../../src/store/commands.rs"]
mod commands;
#[path = "../../../src/store/error.rs"]
mod error;
#[path = "../../../src/store/memory/mod.rs"]
pub mod memory;
#[path = "../../../src/store/notice.rs"]
mod notice;

pub use commands::{Kept, LockStore, Page, Timed};
pub use error::StoreError;
pub use memory::MemoryStore;
pub use notice::{Event, EventKind, Notices};
