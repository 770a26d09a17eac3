//! The system under test: servers, their stores, and the links between them.
//!
//! A topology is a function that builds a [`Deployment`], and the list of faults that apply to it. Sentinel would be
//! another file here.

pub(crate) mod cluster;
mod deployment;
mod memory;
mod quorum;
mod redis;
mod redis_replica;

pub(crate) use deployment::Deployment;
pub(crate) use redis_replica::follow;

use crate::{config::Config, faults::FaultKind};
use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The topologies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Topology {
    /// One server with the memory store.
    Memory,
    /// Two or three servers on one Redis.
    Redis,
    /// The same, with a replica that is promoted.
    RedisReplica,
    /// Servers that keep the locks in a majority of three Redis.
    Quorum,
    /// Two or three servers on one slot of a Redis Cluster.
    Cluster,
}

impl Topology {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::RedisReplica => "redis-replica",
            Self::Quorum => "quorum",
            Self::Cluster => "cluster",
        }
    }

    /// The number of servers.
    pub(crate) fn servers(self, seed: u64) -> usize {
        match self {
            Self::Memory => 1,
            Self::Redis | Self::RedisReplica | Self::Cluster => 2 + usize::from(seed % 2 == 1),
            Self::Quorum => quorum::SERVERS,
        }
    }

    /// The faults that apply to it.
    pub(crate) fn kinds(self) -> Vec<FaultKind> {
        match self {
            Self::Memory => memory::kinds(),
            Self::Redis => redis::kinds(),
            Self::RedisReplica => redis_replica::kinds(),
            Self::Quorum => quorum::kinds(),
            Self::Cluster => cluster::kinds(),
        }
    }

    /// Starts all processes.
    pub(crate) async fn build(self, config: &Config) -> Result<Deployment> {
        match self {
            Self::Memory => memory::build(config).await,
            Self::Redis => redis::build(config).await,
            Self::RedisReplica => redis_replica::build(config).await,
            Self::Quorum => quorum::build(config).await,
            Self::Cluster => cluster::build(config).await,
        }
    }
}
