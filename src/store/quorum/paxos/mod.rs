//! Multi-Paxos for one partition, with passive storage: pure, with no clock, no randomness and no I/O.
//!
//! A *node* keeps what it is sent and knows no rule of locks ([`node`], [`acceptor`]). A server that wants to lead asks
//! a majority of the nodes for promises, twice, and reads what the most recent of them keeps ([`candidate`]). From then
//! on it writes each batch of changes to all nodes, and a batch that a majority has is never lost ([`leader`]).
//! Messages may be late, repeated, reordered or lost. [`recovery`] is for a node that is the only one and lost its
//! memory.

pub mod acceptor;
pub mod ballot;
pub mod candidate;
pub mod classic;
pub mod classic_keys;
pub mod leader;
pub mod message;
pub mod node;
pub(crate) mod partition_clock;
pub(crate) mod progress;
pub mod recovery;
pub mod tokens;
pub mod wall_clocks;
