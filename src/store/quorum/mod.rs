//! The store on Redis: partitions of the lock names, each led by one server and kept by a majority of nodes.
//!
//! Each folder knows only those before it, which a test holds:
//!
//! - [`paxos`]: the protocol of one partition, pure;
//! - [`nodes`]: nodes that are Redis servers;
//! - [`rpc`]: messages between servers, through the nodes;
//! - `membership`: which servers live, and which of them leads;
//! - `classic`: keys that locks are shared as with clients of the classic recipe;
//! - `proposer`: a server's part in a partition, and the rules of locks on what it leads;
//! - [`config`]: which nodes make a store;
//! - `store`: the store that comes of it ([`QuorumStore`], [`ClusterStore`]).

mod classic;
pub mod config;
mod membership;
pub mod nodes;
pub mod paxos;
mod proposer;
pub mod rpc;
mod store;

pub use store::{ClusterStore, QuorumStore};
