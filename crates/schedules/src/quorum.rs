//! What partitions are made of, without the nodes that keep them.

#[path = "../../../src/store/quorum/content.rs"]
pub mod content;
