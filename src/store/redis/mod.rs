//! Leases and queues in Redis.

#[doc(hidden)]
pub mod links;
