//! Baselines without a lock server: the classic lock on Redis (`SET name value NX PX ttl`, and a script that deletes
//! the name if it still has the value), used as its clients use it.

pub(super) mod pairs;
pub(super) mod retry;
pub(super) mod watchdogs;

use super::caller::Failure;
use deadpool_redis::{
    PoolError,
    redis::{self, RedisError, Script, aio::ConnectionLike},
};
use std::time::Duration;

/// The TTL of a lock, as in the Fencepost workloads.
pub(super) const TTL: Duration = Duration::from_secs(30);

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self(format!("redis: {error}"))
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        Self(format!("redis: {error}"))
    }
}

/// The commands of the classic lock.
#[derive(Clone)]
pub(super) struct ClassicLock {
    release: Script,
    renew: Script,
}

impl ClassicLock {
    pub(super) fn new() -> Self {
        let if_mine = |then: &str| {
            Script::new(&format!(
                "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call({then}) else return 0 end"
            ))
        };
        Self { release: if_mine("'DEL', KEYS[1]"), renew: if_mine("'PEXPIRE', KEYS[1], ARGV[2]") }
    }

    /// Tries to acquire. Returns the value that proves ownership, or `None` if the lock is held.
    pub(super) async fn take(
        &self,
        redis: &mut (impl ConnectionLike + Send),
        name: &str,
        ttl: Duration,
    ) -> Result<Option<String>, Failure> {
        let value = uuid::Uuid::new_v4().to_string();
        let mut set = redis::cmd("SET");
        set.arg(name).arg(&value).arg("NX").arg("PX").arg(millis(ttl));
        let set: Option<String> = set.query_async(redis).await?;
        Ok(set.map(|_| value))
    }

    pub(super) async fn release(
        &self,
        redis: &mut (impl ConnectionLike + Send),
        name: &str,
        value: &str,
    ) -> Result<(), Failure> {
        done(self.release.key(name).arg(value).invoke_async(redis).await?)
    }

    async fn renew(
        &self,
        redis: &mut (impl ConnectionLike + Send),
        name: &str,
        value: &str,
        ttl: Duration,
    ) -> Result<(), Failure> {
        done(self.renew.key(name).arg(value).arg(millis(ttl)).invoke_async(redis).await?)
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn done(count: u64) -> Result<(), Failure> {
    if count == 1 { Ok(()) } else { Err(Failure("a classic lock was no longer held".to_owned())) }
}
