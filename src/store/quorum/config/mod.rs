//! The configuration of a store, which is its list of nodes: discovery, bootstrap, status, replacement of a node, and
//! disaster recovery.

pub mod bootstrap;
pub mod disaster_recovery;
pub mod discovery;
pub mod replace_node;
pub mod search;
pub mod status;
