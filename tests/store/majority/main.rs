//! Locks that one Redis keeps, or a majority of three: nodes that die and forget, servers that stop and take over.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../../support/asks.rs"]
mod asks;
mod cluster;
mod made;
mod nodes;
#[path = "../../support/notices.rs"]
mod notices;
#[path = "../../support/redis.rs"]
mod redis;
mod snapshot;
