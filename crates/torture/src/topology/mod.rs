//! What is put under torture: servers and what keeps their state, and the links between them.
//!
//! A topology is a function that builds a [`World`], and the list of faults that make sense in it. Sentinel, Cluster or
//! a quorum is one more file here.

mod memory;
mod redis;
mod redis_replica;
mod world;

pub(crate) use redis_replica::follow;
pub(crate) use world::World;

use crate::{config::Config, faults::Kind};
use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The names of topologies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Topology {
    /// One server that keeps its state itself.
    Memory,
    /// Two or three servers on one Redis.
    Redis,
    /// The same, with a replica that is promoted.
    RedisReplica,
}

impl Topology {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::RedisReplica => "redis-replica",
        }
    }

    /// How many servers there are.
    pub(crate) fn servers(self, seed: u64) -> usize {
        if self == Self::Memory { 1 } else { 2 + usize::from(seed % 2 == 1) }
    }

    /// The faults that can happen in it.
    pub(crate) fn kinds(self) -> Vec<Kind> {
        match self {
            Self::Memory => memory::kinds(),
            Self::Redis => redis::kinds(),
            Self::RedisReplica => redis_replica::kinds(),
        }
    }

    /// Starts all of it.
    pub(crate) async fn build(self, config: &Config) -> Result<World> {
        match self {
            Self::Memory => memory::build(config).await,
            Self::Redis => redis::build(config).await,
            Self::RedisReplica => redis_replica::build(config).await,
        }
    }
}
