//! Running a body under a lock.

use crate::acquire::{Acquire, AcquireError};
use crate::clock::Moment;
use crate::held::Held;
use crate::lease::Lost;
use std::future::{Future, IntoFuture};
use std::pin::pin;

/// A body that did not run, or not to its end.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not acquired. The body did not run.
    #[error("lock not acquired: {0}")]
    Acquire(#[from] AcquireError),
    /// The lock was lost while the body ran, and the body was dropped where it stood.
    #[error("{0}")]
    Lost(#[source] Lost),
}

impl Acquire {
    /// Takes the lock, runs the body under it, and gives the lock back. The body never runs without the lock.
    ///
    /// What the body returns, an error of its own included, is what this returns: a release that fails is only logged
    /// (the lease then ends by its TTL). **If the lock is lost while the body runs, the body's future is dropped** at
    /// the await where it stands, and the answer is [`RunError::Lost`]; work that the body has spawned elsewhere is not
    /// stopped. A body that never awaits cannot be stopped: let it check [`Held::is_valid`], and always send the token
    /// along.
    ///
    /// Dropped, it drops the body first and then gives the lock back in the background.
    pub async fn run<F, Fut>(self, body: F) -> Result<Fut::Output, RunError>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future,
    {
        let lock = self.into_future().await?;
        if let Some(lost) = lock.held().state.lost(Moment::now()) {
            return Err(RunError::Lost(lost));
        }
        let value = {
            // Declared after the lock: dropped before it, whatever ends this.
            let mut body = pin!(body(lock.held()));
            tokio::select! {
                biased;
                value = &mut body => value,
                lost = lock.lost() => return Err(RunError::Lost(lost)),
            }
        };
        let (lock_name, token) = (lock.name().to_owned(), lock.token());
        // Dropped here, the release goes on in the background.
        match lock.release().await {
            Ok(released) if released.was_held() => {}
            Ok(released) => {
                tracing::warn!(lock_name, token, end = ?released.end, "lock had ended before the body did");
            }
            Err(error) => tracing::warn!(lock_name, token, %error, "lock not released"),
        }
        Ok(value)
    }
}
