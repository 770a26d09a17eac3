//! Messages between servers, which go through the nodes: servers need no addresses of each other.

pub mod messages;
pub(crate) mod transport;
