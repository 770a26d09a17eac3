//! What may happen to a lock: pure rules with no async, no I/O, no clock and no transport.
#![allow(missing_docs)]
pub mod limits;
