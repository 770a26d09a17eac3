//! The election of a leader: a lock whose holder is the leader.

use crate::acquire::Acquire;
use crate::acquire_error::AcquireError;
use crate::clock::Moment;
use crate::core::Backoff;
use crate::error::FieldViolation;
use crate::facts::{RECONNECT_MAX_MS, WAIT_MAX_MS};
use crate::held::Held;
use crate::lock::Lock;
use crate::run::under;
use std::future::{Future, IntoFuture};
use std::time::Duration;

/// The longest wait that a server accepts.
const WAIT_MAX: Duration = Duration::from_millis(WAIT_MAX_MS);
/// A server that refuses this wait accepts none.
const WAIT_LEAST: Duration = Duration::from_secs(1);
/// After the loss of a shorter term there is a pause: whatever ended it may end the next one as well.
const SHORT_TERM: Duration = Duration::from_millis(RECONNECT_MAX_MS);

impl Acquire {
    /// Takes part in the election of a leader: to campaign is to wait for the lock, the leader is its holder, and the
    /// number of its term is the fencing token. Waits until it is elected, however long that takes, and runs the body.
    ///
    /// - If the body returns, the lock is released, and this returns the body's value.
    /// - **If the lock is lost, the body's future is dropped** at its current await, as by [`run`](Self::run), and this
    ///   campaigns again: the body is called once for each term.
    /// - An outage of the servers is no error, and neither is a full queue or a used-up quota: this campaigns on, after
    ///   pauses of up to a second, and logs it once. Errors that no later campaign mends are returned:
    ///   [`AcquireError::Invalid`] and [`AcquireError::Refused`].
    ///
    /// Send the token with every write: a leader that is paused does not know that there is another one, and does no
    /// harm only if the store refuses lower tokens. [`max_hold`](Self::max_hold) is the longest term.
    /// [`wait`](Self::wait) and [`request_id`](Self::request_id) have no effect: each campaign has its own.
    ///
    /// Dropped, it leaves the queue, or drops the body first and then releases the lock in the background.
    ///
    /// ```no_run
    /// # async fn schedule(_token: u64) {}
    /// # async fn example(client: fencepost_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// client.acquire("leader/scheduler").lead(|lock| async move { schedule(lock.token()).await }).await?;
    /// # Ok(()) }
    /// ```
    pub async fn lead<F, Fut>(self, mut body: F) -> Result<Fut::Output, AcquireError>
    where
        F: FnMut(Held) -> Fut,
        Fut: Future,
    {
        let mut pauses = Backoff::default();
        loop {
            let lock = self.campaign(&mut pauses).await?;
            let elected = Moment::now();
            match under(lock, &mut body).await {
                Ok(value) => return Ok(value),
                Err(lost) => tracing::warn!(lock_name = lost.name, token = lost.token, %lost, "no longer the leader"),
            }
            if Moment::now().since(elected) >= SHORT_TERM {
                pauses = Backoff::default();
            } else {
                self.sleep(pauses.next()).await;
            }
        }
    }

    /// Waits for the lock, over all errors that pass.
    async fn campaign(&self, pauses: &mut Backoff) -> Result<Lock, AcquireError> {
        let (mut is_told, mut wait) = (false, WAIT_MAX);
        loop {
            let error = match self.anew().wait(wait).into_future().await {
                Ok(lock) => return Ok(lock),
                Err(error) => error,
            };
            match &error {
                // Its turn comes.
                AcquireError::TimedOut { .. } => continue,
                // The server is configured otherwise.
                AcquireError::Invalid { violations, .. } if is_about_wait(violations) && wait > WAIT_LEAST => {
                    wait /= 2;
                    continue;
                }
                AcquireError::Invalid { .. } | AcquireError::Refused { .. } => return Err(error),
                _ => {}
            }
            if !std::mem::replace(&mut is_told, true) {
                tracing::warn!(lock_name = self.lock_name(), %error, "cannot campaign, trying again");
            }
            let asked = if let AcquireError::Exhausted { retry_after, .. } = &error { *retry_after } else { None };
            self.sleep(pauses.next().max(asked.unwrap_or_default())).await;
        }
    }
}

/// Whether the wait alone breaks a rule.
fn is_about_wait(violations: &[FieldViolation]) -> bool {
    !violations.is_empty() && violations.iter().all(|violation| violation.field == "wait_timeout")
}
