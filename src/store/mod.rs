//! Where leases and queues live. One trait that speaks commands and outcomes, so that one Redis or a quorum of them
//! fits behind it as well as memory does.

mod audit_note;
mod chores;
pub mod content;
mod error;
mod failures;
mod fields;
mod interface;
mod lateness;
pub mod memory;
mod notice;
mod page;
pub mod partition;
pub mod quorum;
mod timed;

pub use audit_note::{AuditNote, AuditNoteKind};
pub use error::StoreError;
pub use fields::FieldError;
pub use interface::{Answer, Store};
pub use memory::MemoryStore;
#[cfg(test)]
pub(crate) use notice::TestNotices;
pub use notice::{Event, EventKind, Notice, Notices, reason_of};
pub use page::Page;
pub use timed::Timed;
