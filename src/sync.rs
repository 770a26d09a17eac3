//! What threads and tasks meet at: the mutexes, atomics and wake-ups of the store and the service, named in one place.
//!
//! `crates/schedules` builds the same sources over others in their place, which try one order of events after the
//! other.

pub(crate) use parking_lot::{Mutex, RwLock};
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(crate) use tokio::sync::Notify;
