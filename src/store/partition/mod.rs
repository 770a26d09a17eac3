//! Locks as the nodes of a partition keep them.

pub mod record;
