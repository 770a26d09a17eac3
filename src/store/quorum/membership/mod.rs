//! Failure detection and elections: the servers that are alive, the leader of each partition, and the server that
//! should lead it.

pub(crate) mod election;
pub(crate) mod events;
pub(crate) mod known;
pub(crate) mod member;
mod shares;
