//! Taking a lock.

use crate::attempts::{Attempts, Way};
use crate::client::Client;
use crate::error::{CallError, FieldViolation};
use crate::lock::Lock;
use crate::proto::wire;
use crate::v1;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::watch;
use tonic::Code;
use uuid::Uuid;
use v1::acquire_response::Outcome;

/// A lock to take. Await it to get the [`Lock`], or [`run`](Self::run) a body under it.
///
/// Dropped while it waits, it leaves the line, and a cleanup in the background gives back what may have been granted
/// at that very moment.
#[derive(Clone)]
#[must_use = "nothing is sent until it is awaited"]
pub struct Acquire {
    client: Client,
    request: v1::AcquireRequest,
    wait: Duration,
    ttl: Duration,
    ahead: Option<watch::Sender<Option<u32>>>,
}

impl Acquire {
    pub(crate) fn new(client: Client, lock_name: String) -> Self {
        let holder = client.shared.core.holder.clone();
        let request = v1::AcquireRequest { lock_name, holder, ..Default::default() };
        Self { client, request, wait: Duration::ZERO, ttl: Duration::ZERO, ahead: None }
    }

    /// How long the lease lasts unless it is renewed: the lock of a holder that dies is free after this time. Choose at
    /// least three times the longest pause that you expect to survive. The server's default (30 s) unless set.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self.request.ttl = wire(ttl);
        self
    }

    /// How long to wait in line if the lock is held. Not at all unless set.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// A label shown to others who ask who holds the lock. The client's unless set.
    pub fn holder(mut self, label: impl Into<String>) -> Self {
        self.request.holder = label.into();
        self
    }

    /// Shown with the holder. May be called for several keys.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.metadata.insert(key.into(), value.into());
        self
    }

    /// The token will be at least this: for a store that has seen a higher one, pass its highest + 1.
    ///
    /// Locks share counters on the server, so this raises the tokens of other locks too. If the server's store loses
    /// its data before its clock has passed the raise, the tokens of all these locks fall. So ask for no more than is
    /// needed, and after a loss of data pass it for each lock whose store refuses a new holder's token.
    pub fn min_token(mut self, token: u64) -> Self {
        self.request.min_token = token;
        self
    }

    /// Names this request; a new one is made unless set. The nil UUID is refused. The id is bound to the lock's name:
    /// for another lock it names another request. Never use one for two locks that you want, nor again after you
    /// dropped its acquire: the cleanup takes it back. A wait that you named ends with [`AcquireError::Ended`] if it
    /// was away from the servers for so long that they gave it up; any other goes on at the end of the line.
    pub fn request_id(mut self, id: Uuid) -> Self {
        self.request.request_id = id.to_string();
        self
    }

    /// Tells how many requests stand in line before this one, at most: those that left the line since may still be
    /// counted. Told when it joins the line, and when it has moved up, at most once a second.
    ///
    /// ```no_run
    /// # async fn example(client: fencepost_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let (ahead, mut told) = tokio::sync::watch::channel(None);
    /// let acquire = client.acquire("orders/42").wait(Duration::from_secs(60)).tell_ahead(ahead);
    /// let waiting = tokio::spawn(acquire.into_future());
    /// while told.changed().await.is_ok() {
    ///     println!("{:?} in line before this one, at most", *told.borrow());
    /// }
    /// let lock = waiting.await??;
    /// # drop(lock); Ok(()) }
    /// ```
    pub fn tell_ahead(mut self, ahead: watch::Sender<Option<u32>>) -> Self {
        self.ahead = Some(ahead);
        self
    }

    /// Dropped at any await, it leaves the cleanup of [`Attempts`] running.
    async fn acquire(mut self) -> Result<Lock, AcquireError> {
        self.request.wait_timeout = wire(self.wait);
        let shared = self.client.shared;
        let way = Way::Session { keeper: shared.keeper.clone(), ahead: self.ahead };
        let mut acquired = Attempts::new(shared.core.clone(), way, self.request, true).run().await?;
        // No await from here on: the lease is either in a lock, or being released.
        let lease = acquired.lease(&shared.core, self.ttl);
        let answer = acquired.timed.message;
        match answer.outcome() {
            Outcome::Acquired => {}
            Outcome::TimedOut => return Err(AcquireError::timed_out(answer)),
            // The answer to a repeat that came back when the wait was over.
            Outcome::Contended if !self.wait.is_zero() => return Err(AcquireError::timed_out(answer)),
            Outcome::Contended => return Err(AcquireError::contended(answer)),
            Outcome::Unspecified => return Err(AcquireError::Answer),
        }
        let lease = lease.ok_or(AcquireError::Answer)?;
        let token = lease.token;
        let lock = Lock::start(shared, lease, answer.previous_end());
        if lock.is_valid() { Ok(lock) } else { Err(AcquireError::LostOnArrival { token }) }
    }
}

impl std::fmt::Debug for Acquire {
    /// Without the request id: whoever knows it can pick up the lease.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Acquire");
        debug.field("lock_name", &self.request.lock_name).field("holder", &self.request.holder);
        debug.field("ttl", &self.ttl).field("wait", &self.wait).finish_non_exhaustive()
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Lock, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}

/// A lock that was not acquired. Nothing is held after any of these, or a cleanup in the background makes sure of it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The lock is not free, and no wait was asked for.
    #[error("contended: {}", describe(.holders, *.waiters))]
    Contended {
        /// Who holds it; empty while it is on its way to the next waiter. One at most, until there are shared locks.
        holders: Vec<v1::LockHolder>,
        /// How many wait in line.
        waiters: u32,
    },
    /// The wait ended without the lock.
    #[error("timed out: {}", describe(.holders, *.waiters))]
    TimedOut {
        /// Who holds it; empty while it is on its way to the next waiter. One at most, until there are shared locks.
        holders: Vec<v1::LockHolder>,
        /// How many others wait in line.
        waiters: u32,
    },
    /// The request breaks a rule.
    #[error("invalid request: {message}")]
    Invalid {
        /// The server's words, or this client's about a request that is too large to be sent.
        message: String,
        /// Which fields broke which rules.
        violations: Vec<FieldViolation>,
    },
    /// Too many wait, for this lock or on this server.
    #[error("too many waiters: {message}")]
    Exhausted {
        /// The server's words.
        message: String,
        /// When to try again, if the server said.
        retry_after: Option<Duration>,
    },
    /// The request of this id has already ended: use a new id. After a repeat it says that the request was away from
    /// the servers for too long: its place in line was given up, or it was granted the lock, but the answer did not
    /// arrive before the lease was over. A wait goes on by itself, unless its id was set or its time is over.
    #[error("this request has already ended")]
    Ended,
    /// Somebody else repeated this request id with a higher attempt number.
    #[error("a newer attempt of this request took over")]
    Overtaken,
    /// No server could be reached. Nothing was sent.
    #[error("no server could be reached")]
    Unavailable {
        /// Why not.
        source: CallError,
    },
    /// The server may or may not have granted the lock; a cleanup in the background takes it back.
    #[error("outcome unknown")]
    OutcomeUnknown {
        /// What the last transmission failed with.
        source: CallError,
    },
    /// The lock was granted, but its lease was no longer valid when the answer arrived. It is being released.
    #[error("granted with token {token}, but no longer valid on arrival")]
    LostOnArrival {
        /// Its token.
        token: u64,
    },
    /// The server refused the call for a reason of its own.
    #[error("refused by the server")]
    Refused {
        /// The server's words.
        source: CallError,
    },
    /// The server's answer makes no sense to this version of the client.
    #[error("the server's answer is not one that this client knows")]
    Answer,
}

impl AcquireError {
    fn contended(answer: v1::AcquireResponse) -> Self {
        Self::Contended { holders: answer.holders, waiters: answer.waiters }
    }

    fn timed_out(answer: v1::AcquireResponse) -> Self {
        Self::TimedOut { holders: answer.holders, waiters: answer.waiters }
    }
}

impl From<CallError> for AcquireError {
    fn from(source: CallError) -> Self {
        if source.is_outcome_unknown() {
            return Self::OutcomeUnknown { source };
        }
        if source.is_unreachable() {
            return Self::Unavailable { source };
        }
        let message = source.message().to_owned();
        match (source.code(), source.reason().as_deref()) {
            (Code::InvalidArgument, _) => Self::Invalid { message, violations: source.field_violations() },
            (Code::ResourceExhausted, _) => Self::Exhausted { message, retry_after: source.retry_delay() },
            (Code::Aborted, Some("OVERTAKEN")) => Self::Overtaken,
            (Code::Aborted, Some("REQUEST_ENDED")) => Self::Ended,
            _ => Self::Refused { source },
        }
    }
}

fn describe(holders: &[v1::LockHolder], waiters: u32) -> String {
    let labels: Vec<_> = holders.iter().map(|it| it.holder.as_str()).filter(|label| !label.is_empty()).collect();
    if holders.is_empty() {
        format!("on its way to the next waiter, {waiters} in line")
    } else if labels.is_empty() {
        format!("held, {waiters} in line")
    } else {
        format!("held by {}, {waiters} in line", labels.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_those_who_hold_the_lock() {
        let holder = |label: &str| v1::LockHolder { holder: label.to_owned(), ..Default::default() };
        assert_eq!(describe(&[], 1), "on its way to the next waiter, 1 in line");
        assert_eq!(describe(&[holder("")], 0), "held, 0 in line");
        assert_eq!(describe(&[holder("a")], 2), "held by a, 2 in line");
        assert_eq!(describe(&[holder("a"), holder(""), holder("b")], 2), "held by a and b, 2 in line");
    }
}
