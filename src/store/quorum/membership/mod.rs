//! Which servers live, and which of them leads or is to lead each partition.

pub(crate) mod election;
pub(crate) mod member;
