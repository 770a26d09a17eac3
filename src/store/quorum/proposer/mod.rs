//! A server's part in each partition: it stands by, asks for the lead, or leads. A leader runs the rules of locks in
//! memory and lets out what a majority of the nodes keeps.

pub(crate) mod delivery;
pub(crate) mod gathering;
pub(crate) mod leading;
pub(crate) mod place;
pub(crate) mod role;
pub(crate) mod waiters;
