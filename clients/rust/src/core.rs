//! State shared by all parts of the client: servers, bounds, runtime, and the retry loop.

use crate::bearer::Connection;
use crate::clock::Moment;
use crate::error::CallError;
use crate::facts;
use crate::lease::LeaseKey;
use crate::servers::{Lane, ServerChannel, Servers};
use crate::silence;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tonic::{Request, Status};

/// The first pause before a retry, and the longest. The server keeps a queue position for 3 s.
const PAUSE_FIRST: Duration = Duration::from_millis(facts::RETRY_FIRST_MS);
const PAUSE_MAX: Duration = Duration::from_millis(facts::RETRY_MAX_MS);

/// The least time that one transmission gets, however little is left, and the most, whatever the caller asked for: far
/// more than any server lets a call wait, and few enough digits for a `grpc-timeout` header.
const TRANSMISSION_MIN: Duration = Duration::from_millis(100);
const TRANSMISSION_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The least time that one of several servers gets to answer: over a slow network, a connection with TLS alone takes
/// several round trips.
const ANSWER_TIME_MIN: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) servers: Servers,
    /// The timeout of one transmission, in addition to the wait that it asks for.
    pub(crate) call_timeout: Duration,
    /// How long a call is retried while its outcome is unknown, in addition to the wait that it asks for.
    pub(crate) retry_for: Duration,
    /// The default label of grants.
    pub(crate) holder: String,
    last_key: AtomicU64,
    runtime: Handle,
    /// Background releases and cleanups. Each ends within `retry_for` and one transmission.
    background: TaskTracker,
}

impl Core {
    pub(crate) fn new(servers: Servers, runtime: Handle, holder: String, call: Duration, retry: Duration) -> Self {
        let background = TaskTracker::new();
        background.close();
        Self { servers, call_timeout: call, retry_for: retry, holder, last_key: AtomicU64::new(0), runtime, background }
    }

    /// A key for a new lease.
    pub(crate) fn next_key(&self) -> LeaseKey {
        self.last_key.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Spawns a task that [`flushed`](Self::flushed) waits for.
    pub(crate) fn in_background<F>(&self, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.background.spawn_on(task, &self.runtime)
    }

    /// Spawns a task that ends by itself.
    pub(crate) fn spawn<F>(&self, task: F) -> tokio::task::JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.runtime.spawn(task)
    }

    /// Waits for the background tasks. Dropped, it leaves them running.
    pub(crate) async fn flushed(&self) {
        self.background.wait().await;
    }

    /// Like `tokio::time::sleep`, but does not panic outside the runtime.
    pub(crate) fn sleep(&self, duration: Duration) -> tokio::time::Sleep {
        let _inside = self.runtime.enter();
        tokio::time::sleep(duration)
    }

    /// The retry state of a call that is retried until `until`.
    pub(crate) fn retries(&self, until: Moment) -> Retries<'_> {
        let (backoff, tried) = (Backoff::default(), BTreeMap::new());
        Retries { core: self, until, backoff, maybe_sent: false, tried, answer: None }
    }

    /// Retries a call, each time on a server that is not known to fail. Dropped, the last transmission may still be
    /// applied; the server sees it as cancelled.
    pub(crate) async fn retry<T, F, Fut>(&self, lane: Lane, until: Moment, mut transmit: F) -> Result<T, CallError>
    where
        F: FnMut(Connection) -> Fut,
        Fut: Future<Output = Result<T, Status>>,
    {
        let mut retries = self.retries(until);
        loop {
            let channel = self.servers.channel(self.servers.preferred(), lane);
            let answer = transmit(channel.connection.clone()).await;
            match self.answered(&channel, answer) {
                Ok(reply) => return Ok(reply),
                Err(error) => retries.failed(channel.server, error).await?,
            }
        }
    }

    /// The answer to a unary call on this channel. A call that got none takes its channel with it.
    pub(crate) fn answered<T>(&self, channel: &ServerChannel, answer: Result<T, Status>) -> Result<T, CallError> {
        match answer {
            Ok(reply) => {
                self.servers.answered(channel.server);
                Ok(reply)
            }
            Err(status) => {
                if !silence::is_silence(&status) {
                    return Err(CallError::new(status));
                }
                self.went_silent(channel);
                Err(CallError::new(silence::no_answer()))
            }
        }
    }

    /// The next call or session on the lane of this channel opens another connection.
    pub(crate) fn went_silent(&self, channel: &ServerChannel) {
        let _inside = self.runtime.enter();
        self.servers.went_silent(channel);
    }

    /// Sends one request and waits for its answer, at most `limit`: the deadline is sent to the server, and a local
    /// timer covers a server that is not reached.
    pub(crate) async fn within<T, R, F, Fut>(&self, limit: Duration, message: T, send: F) -> Result<R, Status>
    where
        F: FnOnce(Request<T>) -> Fut,
        Fut: Future<Output = Result<tonic::Response<R>, Status>>,
    {
        let mut request = Request::new(message);
        request.set_timeout(limit);
        let timer = self.sleep(limit);
        // Not through another function: it would hold the call twice. The loser is dropped; a dropped call is reset on
        // the connection.
        tokio::select! {
            answer = send(request) => answer.map(tonic::Response::into_inner),
            () = timer => Err(silence::no_answer()),
        }
    }

    /// Opens a stream. It has no deadline, which would end it; only its begin has a time.
    pub(crate) async fn opened<R>(
        &self,
        opening: impl Future<Output = Result<tonic::Response<R>, Status>>,
    ) -> Result<R, Status> {
        let timer = self.sleep(self.answer_time());
        tokio::select! {
            stream = opening => stream.map(tonic::Response::into_inner),
            () = timer => Err(silence::no_answer()),
        }
    }

    /// How long one server gets to answer a call that does not wait. Each of several servers gets a part of the time:
    /// one that hangs must not use up that of the others.
    fn answer_time(&self) -> Duration {
        answer_time(self.call_timeout, self.retry_for, self.servers.count())
    }

    /// The timeout of one transmission that asks the server to wait for `wait`.
    pub(crate) fn limit(&self, wait: Duration, until: Moment) -> Duration {
        let answer_time = if wait.is_zero() { self.answer_time() } else { self.call_timeout };
        wait.saturating_add(answer_time).min(until.from_now().max(TRANSMISSION_MIN)).min(TRANSMISSION_MAX)
    }
}

fn answer_time(call_timeout: Duration, retry_for: Duration, servers: usize) -> Duration {
    let each = retry_for / u32::try_from(servers).unwrap_or(u32::MAX).max(1);
    if servers > 1 { call_timeout.min(each.max(ANSWER_TIME_MIN)) } else { call_timeout }
}

/// The retry state of one call whose transmissions have all failed so far.
pub(crate) struct Retries<'a> {
    core: &'a Core,
    until: Moment,
    backoff: Backoff,
    maybe_sent: bool,
    /// The last error of each server that was tried, in order of the servers.
    tried: BTreeMap<usize, CallError>,
    /// The last error with which a server answered, although a retry may succeed.
    answer: Option<CallError>,
}

impl Retries<'_> {
    /// Records a failed transmission to this server, and pauses until the next one. Returns the error if there is none.
    pub(crate) async fn failed(&mut self, server: usize, error: CallError) -> Result<(), CallError> {
        let error = self.core.servers.explain(server, error).after_sending(self.maybe_sent);
        if error.may_open_later() {
            if !error.is_over_quota() {
                self.core.servers.failed(server, &error.diagnosis());
            }
            return self.no_room(error, self.until).await;
        }
        let moves = error.is_transient() || error.is_permanent();
        if moves {
            self.maybe_sent |= error.is_outcome_unknown();
            self.core.servers.failed(server, &error.diagnosis());
            self.tried.insert(server, error.clone());
            if error.is_answer() {
                self.answer = Some(error.clone());
            }
        } else if !error.is_session_full() {
            return Err(error);
        }
        let pause = self.backoff.next().max(error.retry_delay().unwrap_or_default());
        tracing::debug!(code = ?error.code(), server, ?pause, "call failed, retrying");
        let all_permanent =
            self.tried.values().filter(|error| error.is_permanent()).count() == self.core.servers.count();
        if all_permanent || pause >= self.until.from_now() {
            return Err(self.end(error));
        }
        self.core.sleep(pause).await;
        Ok(())
    }

    /// Pauses until a server may have room for what it has refused. Returns the error if that is not before `until`.
    pub(crate) async fn no_room(&mut self, error: CallError, until: Moment) -> Result<(), CallError> {
        let pause = self.backoff.next().max(error.retry_delay().unwrap_or_default());
        tracing::debug!(reason = ?error.reason(), ?pause, "no room on the server, retrying");
        if pause >= until.from_now() {
            return Err(error.after_sending(self.maybe_sent));
        }
        self.core.sleep(pause).await;
        Ok(())
    }

    /// The error of the call. A server that may be a wrong one does not hide that another one was not reached.
    fn end(&mut self, last: CallError) -> CallError {
        let tried = std::mem::take(&mut self.tried);
        let diagnoses = tried.values().map(CallError::diagnosis).collect();
        let transient = tried.into_values().find(|error| !last.is_transient() && error.is_transient());
        let error = transient.unwrap_or(last).after_sending(self.maybe_sent).after_trying(diagnoses);
        error.after_answer(self.answer.take())
    }
}

/// Exponential backoff with jitter, so that clients do not all retry at the same moment.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    /// The backoff after so many failures.
    pub(crate) fn after(failures: u32) -> Self {
        Self(failures)
    }

    pub(crate) fn next(&mut self) -> Duration {
        let full = PAUSE_FIRST.saturating_mul(1 << self.0.min(8)).min(PAUSE_MAX);
        self.0 = self.0.saturating_add(1);
        full / 2 + random_part(full / 2)
    }
}

/// A random part of a duration: jitter.
pub(crate) fn random_part(whole: Duration) -> Duration {
    whole.mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_servers_has_a_part_of_the_time() {
        let seconds = Duration::from_secs;
        let of = |servers| answer_time(seconds(5), seconds(9), servers);
        assert_eq!([of(1), of(2), of(3)], [seconds(5), Duration::from_millis(4500), seconds(3)]);
        assert_eq!([of(100), of(usize::MAX)], [ANSWER_TIME_MIN; 2]);
        assert_eq!(answer_time(Duration::from_millis(20), seconds(9), 2), Duration::from_millis(20));
    }

    #[test]
    fn pauses_grow_and_are_bounded() {
        let mut pauses = Backoff::default();
        for n in 0..40 {
            let full = PAUSE_FIRST.saturating_mul(1 << n.min(8)).min(PAUSE_MAX);
            let pause = pauses.next();
            assert!(pause >= full / 2 && pause <= full, "{n}: {pause:?}");
        }
    }
}
