//! The synchronization primitives of the store and the service, imported in one place.
//!
//! `crates/schedules` compiles the same sources with primitives that explore many orders of events.

pub(crate) use parking_lot::{Mutex, RwLock};
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(crate) use tokio::sync::Notify;
