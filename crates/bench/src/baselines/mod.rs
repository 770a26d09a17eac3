//! What services do without a lock server: the classic recipe on Redis (`SET name value NX PX ttl`, and a script that
//! deletes the name if it still has the value), as its clients use it.

pub(super) mod pairs;
pub(super) mod retry;
pub(super) mod watchdogs;

use super::caller::Fault;
use deadpool_redis::{
    PoolError,
    redis::{self, RedisError, Script, aio::ConnectionLike},
};
use std::time::Duration;

/// How long a lock lasts, as the other side has it.
const TTL: Duration = Duration::from_secs(30);

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        Self(format!("redis: {error}"))
    }
}

impl From<PoolError> for Fault {
    fn from(error: PoolError) -> Self {
        Self(format!("redis: {error}"))
    }
}

/// The scripts of the recipe.
#[derive(Clone)]
struct Recipe {
    release: Script,
    renew: Script,
}

impl Recipe {
    fn new() -> Self {
        let if_mine = |then: &str| {
            Script::new(&format!(
                "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call({then}) else return 0 end"
            ))
        };
        Self { release: if_mine("'DEL', KEYS[1]"), renew: if_mine("'PEXPIRE', KEYS[1], ARGV[2]") }
    }

    /// Takes it if nobody holds it: the value that proves it.
    async fn take(
        &self,
        redis: &mut (impl ConnectionLike + Send),
        name: &str,
        ttl: Duration,
    ) -> Result<Option<String>, Fault> {
        let value = uuid::Uuid::new_v4().to_string();
        let mut set = redis::cmd("SET");
        set.arg(name).arg(&value).arg("NX").arg("PX").arg(millis(ttl));
        let set: Option<String> = set.query_async(redis).await?;
        Ok(set.map(|_| value))
    }

    async fn release(&self, redis: &mut (impl ConnectionLike + Send), name: &str, value: &str) -> Result<(), Fault> {
        done(self.release.key(name).arg(value).invoke_async(redis).await?)
    }

    async fn renew(
        &self,
        redis: &mut (impl ConnectionLike + Send),
        name: &str,
        value: &str,
        ttl: Duration,
    ) -> Result<(), Fault> {
        done(self.renew.key(name).arg(value).arg(millis(ttl)).invoke_async(redis).await?)
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn done(count: u64) -> Result<(), Fault> {
    if count == 1 { Ok(()) } else { Err(Fault("a lock of the classic recipe was not held any more".to_owned())) }
}
