//! One partition of the lock names, led by one server and kept by nodes: multi-Paxos with passive storage.
//!
//! A *node* keeps what it is sent and knows no rule of locks ([`node`], [`acceptor`]). A server that wants to lead asks
//! a majority of the nodes for promises, twice, and reads what the most recent of them keeps ([`candidate`]). From then
//! on it writes each batch of changes to all nodes, and a batch that a majority has is never lost ([`leader`]).
//!
//! These are pure: no clock, no randomness, no I/O. Messages may be late, repeated, reordered or lost. Around them,
//! `share.rs` says what a server is in each partition, `lead` runs the rules of locks and holds back what no majority
//! has yet, [`nodes`] carries requests to the nodes ([`redis_nodes`]), and [`QuorumStore`] is the store that comes of
//! it.
//!
//! Any number of servers share the partitions. `beat.rs` and `elect.rs` say who lives and who leads. `route.rs` brings
//! a command to the leader of its partition, here or through the nodes (`courier.rs`, [`frame`], `peers.rs`).
//! `carried.rs` and `gather.rs` take waiters from one leader to the next. `one_node.rs` and [`alone`] are for a node
//! that is the only one and lost its memory; [`clocks`] says with which tokens a store goes on that knows none.

pub mod acceptor;
pub mod addresses;
pub mod alone;
pub mod ballot;
mod beat;
pub mod candidate;
mod carried;
pub mod classic;
pub mod clocks;
mod cluster;
pub mod content;
mod courier;
pub mod create;
mod demands;
pub mod doctor;
mod elect;
mod exit;
pub mod find;
pub mod frame;
mod gather;
mod lead;
pub mod leader;
mod list;
pub mod message;
pub mod node;
pub mod nodes;
mod one_node;
mod peer;
mod peers;
mod prefix;
pub mod rebuild;
pub mod redis_nodes;
pub mod replace;
mod route;
pub mod search;
mod share;
mod store;
mod succeed;
pub mod survey;
mod tend;
mod time;
mod trouble;
pub mod wire;

pub use cluster::ClusterStore;
pub use store::QuorumStore;
