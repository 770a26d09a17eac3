//! Sharing locks with classic clients: a lock `NAME` is theirs as the key `PREFIXNAME` of the only node.
//!
//! A turn that may grant or extend a lease comes after a step at the lock's classic key ([`wishes`] says which): the
//! node has set the key for us, or a classic client has it, and then the rules refuse. So no lease begins, and none is
//! told to last, that the key does not keep classic clients out of. What a turn leaves behind (no lease, or an offer)
//! is written to the key when a majority has the turn's batch: of a batch that is lost the lease goes on.
//!
//! Steps may arrive in any order, so there is one at a time for each lock, and what else comes for the lock waits
//! behind it. Nothing is done on doubt: a step that is not answered is sent again, and its command expires meanwhile.
//!
//! This folder knows keys and steps, and not what waits for them: a leader without a [`Bridge`] knows nothing of it.

mod bridge;
pub(crate) mod wishes;

pub(crate) use bridge::{Bridge, Stepped};
