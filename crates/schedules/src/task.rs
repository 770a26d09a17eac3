//! Tasks that the scheduler knows.

pub use shuttle::future::{JoinHandle, block_on, spawn, yield_now};
