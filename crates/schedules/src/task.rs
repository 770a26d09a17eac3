//! Tasks of the scheduler.

pub use shuttle::future::{JoinHandle, block_on, spawn, yield_now};
