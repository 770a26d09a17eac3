//! The guard for Redis.
//!
//! Redis has no transaction that can be rolled back, so check and write are one script.

use crate::{Grant, RaiseError};
use fencepost_client::facts::{GUARD_REDIS_CHECK_SHARED, GUARD_REDIS_RAISE, GUARD_REDIS_RAISE_SHARED};
use redis::{FromRedisValue, RedisError, Script, ToRedisArgs, aio::ConnectionLike};

/// A script that writes only if the token of the holder is not stale.
#[derive(Debug)]
pub struct GuardedScript {
    exclusive: Script,
    shared: Script,
}

impl GuardedScript {
    /// Puts the guard before a Lua script. The script's own keys begin at `KEYS[2]`, and its arguments at `ARGV[3]`.
    pub fn new(script: &str) -> Self {
        let after = |guard: &str| Script::new(&format!("{guard}\n{script}"));
        Self { exclusive: after(GUARD_REDIS_RAISE), shared: after(GUARD_REDIS_CHECK_SHARED) }
    }

    /// Raises the fence of a lock to the token of the holder, and runs the script.
    ///
    /// `fence` is the key that keeps the highest token of this lock: one key for each lock, the same for all writers,
    /// in a cluster in the same slot as the data (`{orders/42}:fence` beside `{orders/42}:state`). Let no fence expire
    /// or be evicted. For one permit of a semaphore the key is that of [`Grant::fence_key`].
    pub async fn run<'a, T: FromRedisValue>(
        &self,
        connection: &mut (impl ConnectionLike + Send),
        fence: &str,
        grant: impl Into<Grant<'a>>,
        keys: impl ToRedisArgs,
        arguments: impl ToRedisArgs,
    ) -> Result<T, RaiseError<RedisError>> {
        let grant = grant.into();
        let mut call = self.exclusive.key(&*grant.fence_key(fence)?);
        call.key(keys).arg(grant.stored_token()?).arg(grant.grant_id).arg(arguments);
        call.invoke_async(connection).await.map_err(|error| match newest(&error) {
            Some(newest) => grant.stale(newest).into(),
            None => RaiseError::Store(error),
        })
    }

    /// Checks the token of a shared lock, and runs the script, after [`raise_shared`]. Its parameters are those of
    /// [`run`](Self::run).
    pub async fn check_shared<'a, T: FromRedisValue>(
        &self,
        connection: &mut (impl ConnectionLike + Send),
        fence: &str,
        grant: impl Into<Grant<'a>>,
        keys: impl ToRedisArgs,
        arguments: impl ToRedisArgs,
    ) -> Result<T, RaiseError<RedisError>> {
        let grant = grant.into();
        grant.check_reader()?;
        let mut call = self.shared.key(fence);
        call.key(keys).arg(grant.stored_token()?).arg(grant.grant_id).arg(arguments);
        call.invoke_async(connection).await.map_err(|error| refused(grant, error))
    }
}

/// Raises the token of a shared lock. Call it once after the grant. `fence` is the key that keeps the highest token.
pub async fn raise_shared<'a>(
    connection: &mut (impl ConnectionLike + Send),
    fence: &str,
    grant: impl Into<Grant<'a>>,
) -> Result<(), RaiseError<RedisError>> {
    let grant = grant.into();
    grant.check_reader()?;
    let script = Script::new(GUARD_REDIS_RAISE_SHARED);
    let mut call = script.key(fence);
    call.arg(grant.stored_token()?).arg(grant.grant_id);
    call.invoke_async(connection).await.map_err(|error| refused(grant, error))
}

fn refused(grant: Grant<'_>, error: RedisError) -> RaiseError<RedisError> {
    match newest(&error) {
        Some(newest) => grant.refused(Some(newest)),
        None => RaiseError::Store(error),
    }
}

/// The highest token, if the guard refused.
fn newest(error: &RedisError) -> Option<i64> {
    (error.code() == Some("STALE")).then(|| error.detail()?.trim().parse().ok()).flatten()
}
