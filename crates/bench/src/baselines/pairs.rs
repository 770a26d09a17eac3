//! The classic recipe, uncontended: with a checkout from a pool for each command, or on one connection that all share.

use super::{Recipe, TTL};
use crate::{
    caller::Fault,
    figures::Figures,
    load::{Client, Load, Measured},
    place::Place,
    redis::Redis,
    workloads::Run,
};
use anyhow::Result;
use deadpool_redis::{Config, Connection, Pool, PoolConfig, Runtime, redis::aio::MultiplexedConnection};
use tokio::time::Instant;

/// As many connections as a service would open to one Redis, at most.
const POOL_MAX: usize = 64;

/// How a client comes by a connection.
#[derive(Clone)]
enum Way {
    Pool(Pool),
    Shared(MultiplexedConnection),
}

pub(crate) async fn pooled(run: Run<'_>, place: &Place, redis: &Redis) -> Result<(Figures, Measured)> {
    let mut config = Config::from_url(&redis.url);
    config.pool = Some(PoolConfig::new(run.plan.clients.min(POOL_MAX)));
    measure(run, place, Way::Pool(config.create_pool(Some(Runtime::Tokio1))?)).await
}

pub(crate) async fn shared(run: Run<'_>, place: &Place, redis: &Redis) -> Result<(Figures, Measured)> {
    measure(run, place, Way::Shared(redis.connection().await?)).await
}

async fn measure(run: Run<'_>, place: &Place, way: Way) -> Result<(Figures, Measured)> {
    let mut load = Load::paced(run.plan, run.label, run.plan.clients);
    for index in 0..run.plan.clients {
        let (way, name) = (way.clone(), format!("{}{index}", run.prefix));
        let fresh = run.plan.fresh_names;
        load.start(index, move |client| pairs(client, way, name, fresh));
    }
    let measured = load.measure(place).await?;
    Ok((measured.figures(), measured))
}

async fn pairs(client: Client, way: Way, own: String, fresh: bool) {
    let recipe = Recipe::new();
    let mut count = 0u64;
    while let Some(began) = client.next().await {
        count += 1;
        let name = if fresh { &format!("{own}/{count}") } else { &own };
        match pair(&way, &recipe, name).await {
            Ok(acquired) => client.done(began.elapsed(), Some(acquired.duration_since(began)), None),
            Err(fault) => client.failed(fault).await,
        }
    }
}

/// Says when it had the lock.
async fn pair(way: &Way, recipe: &Recipe, name: &str) -> Result<Instant, Fault> {
    let value = match way {
        Way::Pool(pool) => recipe.take(&mut checkout(pool).await?, name, TTL).await?,
        Way::Shared(redis) => recipe.take(&mut redis.clone(), name, TTL).await?,
    };
    let value = value.ok_or_else(|| Fault("a lock that nobody else wants was held".to_owned()))?;
    let acquired = Instant::now();
    match way {
        Way::Pool(pool) => recipe.release(&mut checkout(pool).await?, name, &value).await?,
        Way::Shared(redis) => recipe.release(&mut redis.clone(), name, &value).await?,
    }
    Ok(acquired)
}

async fn checkout(pool: &Pool) -> Result<Connection, Fault> {
    Ok(pool.get().await?)
}
