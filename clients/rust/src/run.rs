//! Running a body under a lock.

use crate::acquire::Acquire;
use crate::acquire_error::AcquireError;
use crate::clock::Moment;
use crate::held::Held;
use crate::lock::Lock;
use crate::status::LockLost;
use std::future::{Future, IntoFuture};
use std::pin::pin;

/// Why a body did not run, or not to its end.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not acquired. The body did not run.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lock was lost while the body ran. The body's future was dropped at its current await.
    #[error(transparent)]
    Lost(LockLost),
}

impl Acquire {
    /// Acquires the lock, runs the body, and releases the lock. The body never runs without the lock.
    ///
    /// Returns the body's value, even if that is an error. A failed release is only logged; the lease then ends by its
    /// TTL. **If the lock is lost while the body runs, the body's future is dropped** at its current await, and this
    /// returns [`RunError::Lost`]; tasks that the body has spawned are not stopped. A body that never awaits cannot be
    /// stopped: let it check [`Held::is_valid`], and always send the token with writes.
    ///
    /// Dropped, it drops the body first and then releases the lock in the background.
    pub async fn run<F, Fut>(self, body: F) -> Result<Fut::Output, RunError>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future,
    {
        let lock = self.into_future().await?;
        under(lock, body).await.map_err(RunError::Lost)
    }
}

/// Runs the body while the lock is held, and releases the lock.
///
/// Dropped, it drops the body first and then releases the lock in the background.
pub(crate) async fn under<F, Fut>(lock: Lock, body: F) -> Result<Fut::Output, LockLost>
where
    F: FnOnce(Held) -> Fut,
    Fut: Future,
{
    if let Some(lost) = lock.held().state.lost(Moment::now()) {
        return Err(lost);
    }
    let value = {
        // Declared after the lock, so it is dropped before the lock on every exit.
        let mut body = pin!(body(lock.held()));
        tokio::select! {
            biased;
            value = &mut body => value,
            lost = lock.lost() => return Err(lost),
        }
    };
    let (lock_name, token) = (lock.name().to_owned(), lock.token());
    // If dropped here, the release continues in the background.
    match lock.release().await {
        Ok(released) if released.was_held() => {}
        Ok(released) => {
            tracing::warn!(lock_name, token, end = ?released.end, "lock had ended before the body did");
        }
        Err(error) => tracing::warn!(lock_name, token, %error, "lock not released"),
    }
    Ok(value)
}
