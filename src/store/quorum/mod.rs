//! One partition of the lock names, led by one server and kept by nodes: multi-Paxos with passive storage.
//!
//! A *node* keeps what it is sent and knows no rule of locks ([`node`], [`acceptor`]). A server that wants to lead asks
//! a majority of the nodes for promises, twice, and reads what the most recent of them keeps ([`candidate`]). From then
//! on it writes each batch of changes to all nodes, and a batch that a majority has is never lost ([`leader`]).
//!
//! These are pure: no clock, no randomness, no I/O. Messages may be late, repeated, reordered or lost. Around them,
//! `share.rs` says what a server is in each partition, `lead.rs` runs the rules of locks and holds back what no
//! majority has yet, [`nodes`] carries requests to the nodes ([`redis_nodes`]), and [`QuorumStore`] is the store that
//! comes of it.

pub mod acceptor;
pub mod alone;
pub mod ballot;
pub mod candidate;
mod cluster;
pub mod content;
pub mod create;
pub mod find;
pub mod frame;
mod lead;
pub mod leader;
pub mod message;
pub mod node;
pub mod nodes;
mod peer;
pub mod redis_nodes;
mod share;
mod store;
pub mod survey;
mod time;
pub mod wire;

pub use cluster::ClusterStore;
pub use store::QuorumStore;
