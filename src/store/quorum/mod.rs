//! One partition of the lock names, led by one server and kept by nodes: multi-Paxos with passive storage.
//!
//! A *node* keeps what it is sent and knows no rule of locks ([`node`], [`acceptor`]). A server that wants to lead asks
//! a majority of the nodes for promises, twice, and reads what the most recent of them keeps ([`candidate`]). From then
//! on it writes each batch of changes to all nodes, and a batch that a majority has is never lost ([`leader`]).
//!
//! All of it is pure: no clock, no randomness, no I/O. The caller sends what it is told to send, and tells what was
//! answered. Messages may be late, repeated, reordered or lost.

pub mod acceptor;
pub mod ballot;
pub mod candidate;
pub mod content;
pub mod leader;
pub mod message;
pub mod node;
mod peer;
pub mod wire;
