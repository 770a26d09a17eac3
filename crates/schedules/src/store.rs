//! The store without Redis.

#[path = "../../../src/store/audit_note.rs"]
mod audit_note;
#[path = "../../../src/store/content.rs"]
pub mod content;
#[path = "../../../src/store/error.rs"]
mod error;
#[path = "../../../src/store/fields/mod.rs"]
mod fields;
#[path = "../../../src/store/interface.rs"]
mod interface;
#[path = "../../../src/store/memory/mod.rs"]
pub mod memory;
#[path = "../../../src/store/notice.rs"]
mod notice;
#[path = "../../../src/store/page.rs"]
mod page;
#[path = "../../../src/store/partition/mod.rs"]
pub mod partition;
#[path = "../../../src/store/timed.rs"]
mod timed;

pub use audit_note::{AuditNote, AuditNoteKind};
pub use error::StoreError;
pub use interface::{Answer, Store};
pub use memory::MemoryStore;
pub use notice::{Event, EventKind, Notice, Notices, reason_of};
pub use page::Page;
pub use timed::Timed;
