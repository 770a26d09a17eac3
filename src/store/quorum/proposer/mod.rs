//! The proposer: this server's role in each partition, as standby, candidate or leader. A leader runs the rules of
//! locks in memory and answers when a majority of the nodes has its batch.

pub(crate) mod delivery;
pub(crate) mod gathering;
pub(crate) mod leading;
pub(crate) mod local_waiters;
pub(crate) mod role;
pub(crate) mod route;
