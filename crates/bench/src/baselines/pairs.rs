//! The classic lock, uncontended: with a pool checkout for each command, or on one shared connection.

use super::{ClassicLock, TTL};
use crate::{
    caller::Failure,
    figures::Figures,
    load::{Client, Load, Measurement},
    redis::Redis,
    testbed::Testbed,
    workloads::Run,
};
use anyhow::Result;
use deadpool_redis::{Config, Connection, Pool, PoolConfig, Runtime, redis::aio::MultiplexedConnection};
use tokio::time::Instant;

/// The most connections that a service would open to one Redis.
const POOL_MAX: usize = 64;

/// Where a client gets its connection from.
#[derive(Clone)]
enum Connections {
    Pool(Pool),
    Shared(MultiplexedConnection),
}

pub(crate) async fn pooled(run: Run<'_>, testbed: &Testbed, redis: &Redis) -> Result<(Figures, Measurement)> {
    let mut config = Config::from_url(&redis.url);
    config.pool = Some(PoolConfig::new(run.plan.clients.min(POOL_MAX)));
    measure(run, testbed, Connections::Pool(config.create_pool(Some(Runtime::Tokio1))?)).await
}

pub(crate) async fn shared(run: Run<'_>, testbed: &Testbed, redis: &Redis) -> Result<(Figures, Measurement)> {
    measure(run, testbed, Connections::Shared(redis.connection().await?)).await
}

async fn measure(run: Run<'_>, testbed: &Testbed, connections: Connections) -> Result<(Figures, Measurement)> {
    let mut load = Load::paced(run.plan, run.label, run.plan.clients);
    for index in 0..run.plan.clients {
        let (connections, name) = (connections.clone(), format!("{}{index}", run.prefix));
        let fresh = run.plan.fresh_names;
        load.start(index, move |client| pairs(client, connections, name, fresh));
    }
    let measured = load.measure(testbed).await?;
    Ok((measured.figures(), measured))
}

async fn pairs(client: Client, connections: Connections, own: String, fresh: bool) {
    let classic = ClassicLock::new();
    let mut count = 0u64;
    while let Some(began) = client.next().await {
        count += 1;
        let name = if fresh { &format!("{own}/{count}") } else { &own };
        match pair(&connections, &classic, name).await {
            Ok(acquired) => client.done(began.elapsed(), Some(acquired.duration_since(began)), None),
            Err(failure) => client.failed(failure).await,
        }
    }
}

/// Returns when it had the lock.
async fn pair(connections: &Connections, classic: &ClassicLock, name: &str) -> Result<Instant, Failure> {
    let value = match connections {
        Connections::Pool(pool) => classic.take(&mut checkout(pool).await?, name, TTL).await?,
        Connections::Shared(redis) => classic.take(&mut redis.clone(), name, TTL).await?,
    };
    let value = value.ok_or_else(|| Failure("an uncontended lock was held".to_owned()))?;
    let acquired = Instant::now();
    match connections {
        Connections::Pool(pool) => classic.release(&mut checkout(pool).await?, name, &value).await?,
        Connections::Shared(redis) => classic.release(&mut redis.clone(), name, &value).await?,
    }
    Ok(acquired)
}

async fn checkout(pool: &Pool) -> Result<Connection, Failure> {
    Ok(pool.get().await?)
}
