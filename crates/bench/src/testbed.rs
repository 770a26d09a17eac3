//! The system under load: servers or an echo, with or without Redis, or Redis alone.

use super::{
    caller::{self, Server},
    child::{Child, START_MAX},
    plan::{Plan, Target, Via},
    redis::Redis,
    usage::{self, Reading},
};
use anyhow::{Context, Result, bail};
use fencepost_client::{ServerAddress, Tls};
use std::{ffi::OsStr, time::Duration};
use tokio::time::{Instant, sleep};

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Created anew for each measurement, so that none is affected by an earlier one: memory that was freed but kept,
/// leases that expire.
pub(super) struct Testbed {
    /// The servers to call.
    pub servers: Vec<Server>,
    /// Those that it has started.
    started: Vec<Child>,
    /// Dropped last: servers log errors when they lose their Redis.
    pub redis: Option<Redis>,
}

impl Testbed {
    /// Fencepost servers.
    pub(super) async fn fencepost(plan: &Plan) -> Result<Self> {
        let (store, redis) = match &plan.target {
            Target::Servers(addresses, _) => {
                let server = |address: &ServerAddress| Server { address: address.clone(), tls: plan.tls.clone() };
                let servers = addresses.iter().map(server).collect();
                return Ok(Self { servers, started: Vec::new(), redis: redis(plan).await? });
            }
            Target::Memory => ("memory:".to_owned(), None),
            Target::Redis(_) | Target::OwnRedis => {
                let redis = redis(plan).await?;
                (redis.as_ref().map(|redis| redis.url.clone()).unwrap_or_default(), redis)
            }
        };
        let mut testbed = Self { servers: Vec::new(), started: Vec::new(), redis };
        for _ in 0..plan.replicas {
            // Short TTLs, so that short runs include renewals; large queue bounds, so that all waiters fit.
            let flags = ["--ttl-min", "100ms", "--waiters-per-lock", "1000000", "--waiters-per-server", "1000000"];
            let words = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "none", "--store", &store];
            let words = words.into_iter().chain(flags);
            testbed.start(plan.fencepost.as_os_str(), &words.map(str::to_owned).collect::<Vec<_>>()).await?;
        }
        testbed.wait_until_ready().await?;
        Ok(testbed)
    }

    /// Waits until all servers have reached their store.
    async fn wait_until_ready(&self) -> Result<()> {
        let began = Instant::now();
        for mut caller in caller::connect(&self.servers, self.servers.len(), Via::Unary).await? {
            while let Err(failure) = caller.waiters("bench").await {
                if began.elapsed() > START_MAX {
                    bail!("a server did not start: {}", failure.0);
                }
                sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// The echo server.
    pub(super) async fn echo() -> Result<Self> {
        Self::own_server(None).await
    }

    /// A server that forwards to the classic lock.
    pub(super) async fn forwarder(plan: &Plan) -> Result<Self> {
        Self::own_server(redis(plan).await?).await
    }

    async fn own_server(redis: Option<Redis>) -> Result<Self> {
        let words = [Some("echo".to_owned()), redis.as_ref().map(|redis| redis.url.clone())];
        let mut testbed = Self { servers: Vec::new(), started: Vec::new(), redis };
        let own = std::env::current_exe().context("cannot find this program")?;
        testbed.start(own.as_os_str(), &words.into_iter().flatten().collect::<Vec<_>>()).await?;
        Ok(testbed)
    }

    /// Redis alone, for clients that use it directly.
    pub(super) async fn redis_alone(plan: &Plan) -> Result<Self> {
        Ok(Self { servers: Vec::new(), started: Vec::new(), redis: redis(plan).await? })
    }

    async fn start(&mut self, program: &OsStr, arguments: &[String]) -> Result<()> {
        let (child, address) = Child::listening(program, arguments).await?;
        self.started.push(child);
        self.servers.push(Server { address, tls: Tls::new() });
        Ok(())
    }

    /// Reads the resource counters.
    pub(super) async fn read(&self) -> Result<Reading> {
        let servers = usage::of_processes(self.started.iter().map(Child::pid));
        let redis = match &self.redis {
            Some(redis) => Some(redis.read().await?),
            None => None,
        };
        let own_cpu = usage::of_process(std::process::id()).map(|(cpu, _)| cpu);
        Ok(Reading {
            server_cpu: servers.map(|read| read.0),
            server_memory: servers.map(|read| read.1),
            redis,
            own_cpu,
        })
    }
}

/// The Redis of the plan, if there is one.
async fn redis(plan: &Plan) -> Result<Option<Redis>> {
    Ok(match &plan.target {
        Target::Memory | Target::Servers(_, None) => None,
        Target::Redis(url) | Target::Servers(_, Some(url)) => Some(Redis::running(url).await?),
        Target::OwnRedis => Some(Redis::own(plan).await?),
    })
}
