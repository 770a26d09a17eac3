//! What every part of the client shares: the servers, the bounds, the runtime, and how a call is repeated.

use crate::clock::Moment;
use crate::error::CallError;
use crate::lease::LeaseKey;
use crate::servers::{Lane, Servers};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// The first pause before a call is repeated, and the longest. The server keeps a place in line for 3 s.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The least time that one transmission gets, however little is left, and the most, whatever was asked for: far more
/// than any server lets a call wait, and little enough to be written in a header.
const TRANSMISSION_MIN: Duration = Duration::from_millis(100);
const TRANSMISSION_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) servers: Servers,
    /// How long one transmission of a call may take, on top of what it asked the server to wait.
    pub(crate) call_timeout: Duration,
    /// How long a call is repeated while its outcome is unknown, on top of what it asked the server to wait.
    pub(crate) retry_for: Duration,
    /// The default label of grants.
    pub(crate) holder: String,
    last_key: AtomicU64,
    runtime: Handle,
    /// Releases and cleanups in the background. Each ends within `retry_for` and one transmission.
    background: TaskTracker,
}

impl Core {
    pub(crate) fn new(servers: Servers, runtime: Handle, holder: String, call: Duration, retry: Duration) -> Self {
        let background = TaskTracker::new();
        background.close();
        Self { servers, call_timeout: call, retry_for: retry, holder, last_key: AtomicU64::new(0), runtime, background }
    }

    /// A name for one more lease.
    pub(crate) fn next_key(&self) -> LeaseKey {
        self.last_key.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Runs something that [`settled`](Self::settled) waits for.
    pub(crate) fn in_background<F>(&self, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.background.spawn_on(task, &self.runtime)
    }

    /// Runs something that ends by itself.
    pub(crate) fn spawn<F>(&self, task: F) -> tokio::task::JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.runtime.spawn(task)
    }

    /// Waits for what runs in the background. Dropped, it leaves that running.
    pub(crate) async fn settled(&self) {
        self.background.wait().await;
    }

    /// Sleeps. Unlike `tokio::time::sleep` it may be called from outside the runtime, where that panics.
    pub(crate) fn sleep(&self, duration: Duration) -> tokio::time::Sleep {
        let _inside = self.runtime.enter();
        tokio::time::sleep(duration)
    }

    /// For a call that is to be repeated until its outcome is known or `until` has come.
    pub(crate) fn repeats(&self, until: Moment) -> Repeats<'_> {
        Repeats { core: self, until, pauses: Pauses::default(), perhaps_sent: false }
    }

    /// Repeats a call, each time on a server that is not known to fail. Dropped, it leaves what was last transmitted to
    /// the server, which is told that the call was cancelled.
    pub(crate) async fn repeat<T, F, Fut>(&self, lane: Lane, until: Moment, mut transmit: F) -> Result<T, CallError>
    where
        F: FnMut(Channel) -> Fut,
        Fut: Future<Output = Result<T, Status>>,
    {
        let mut repeats = self.repeats(until);
        loop {
            let server = self.servers.preferred();
            match transmit(self.servers.channel(server, lane)).await {
                Ok(reply) => return Ok(reply),
                Err(status) => repeats.failed(server, CallError::new(status)).await?,
            }
        }
    }

    /// Sends one request and waits for its answer, no longer than `limit`: as a deadline that the server knows, and by
    /// a timer here for when it does not get that far.
    pub(crate) async fn within<T, R, F, Fut>(&self, limit: Duration, message: T, send: F) -> Result<R, Status>
    where
        F: FnOnce(Request<T>) -> Fut,
        Fut: Future<Output = Result<tonic::Response<R>, Status>>,
    {
        let mut request = Request::new(message);
        request.set_timeout(limit);
        let timer = self.sleep(limit);
        // Either one is dropped when the other is done; a dropped call is reset on the connection.
        tokio::select! {
            answer = send(request) => answer.map(tonic::Response::into_inner),
            () = timer => Err(Status::deadline_exceeded("no answer in time")),
        }
    }

    /// How long one transmission may take that asks the server to wait for `wait`.
    pub(crate) fn limit(&self, wait: Duration, until: Moment) -> Duration {
        wait.saturating_add(self.call_timeout).min(until.from_now().max(TRANSMISSION_MIN)).min(TRANSMISSION_MAX)
    }
}

/// The transmissions of one call, all of which have failed so far.
pub(crate) struct Repeats<'a> {
    core: &'a Core,
    until: Moment,
    pauses: Pauses,
    perhaps_sent: bool,
}

impl Repeats<'_> {
    /// One to this server failed: waits until it is time for the next. Fails with what there is to say if there is to
    /// be none.
    pub(crate) async fn failed(&mut self, server: usize, error: CallError) -> Result<(), CallError> {
        let error = self.core.servers.judge(server, error).after_sending(self.perhaps_sent);
        if error.may_pass() {
            self.perhaps_sent = !error.is_unreachable();
            self.core.servers.failed(server);
        } else if !error.is_session_full() {
            return Err(error);
        }
        let pause = self.pauses.next().max(error.retry_delay().unwrap_or_default());
        tracing::debug!(code = ?error.code(), server, ?pause, "call failed, to be repeated");
        if pause >= self.until.from_now() {
            return Err(error);
        }
        self.core.sleep(pause).await;
        Ok(())
    }
}

/// Growing pauses with a random part, so that many clients do not come back at the same moment.
#[derive(Debug, Default)]
pub(crate) struct Pauses(u32);

impl Pauses {
    pub(crate) fn next(&mut self) -> Duration {
        let full = PAUSE_FIRST.saturating_mul(1 << self.0.min(8)).min(PAUSE_MAX);
        self.0 = self.0.saturating_add(1);
        full / 2 + part_of(full / 2)
    }
}

/// A random part of it.
pub(crate) fn part_of(whole: Duration) -> Duration {
    let [random, ..] = *uuid::Uuid::new_v4().as_bytes();
    whole / 256 * u32::from(random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_bounded() {
        let mut pauses = Pauses::default();
        for n in 0..40 {
            let full = PAUSE_FIRST.saturating_mul(1 << n.min(8)).min(PAUSE_MAX);
            let pause = pauses.next();
            assert!(pause >= full / 2 && pause <= full, "{n}: {pause:?}");
        }
    }
}
