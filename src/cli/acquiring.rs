//! Acquires a lock for `acquire`, `hold` and `run`.

use super::{
    args::{LockArgs, ServerArgs, each_key_once},
    ask::require_one_store,
    connect::{self, CallKind, failed, reachable},
    exit::{COMMAND_LINE, Failure, NOT_ACQUIRED, UNAVAILABLE, USAGE},
    text, waiting,
};
use fencepost_client::{
    Acquire, AcquireAllError, AcquireError, Client, Holder, Lock, LockDelay, LockSet, SemaphoreInfo,
    raw::v1::{AcquireResponse, acquire_response::Outcome},
};
use std::{future::IntoFuture, time::Duration};
use tokio::sync::watch;
use uuid::Uuid;

/// How long the end of the process waits, after a failure or a signal, for the cleanup of the request.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(2);

/// The lock was not acquired.
#[derive(Debug)]
pub(super) struct NotAcquired {
    pub(super) failure: Failure,
    /// The answer of the server, if it is no error.
    pub(super) answer: Option<AcquireResponse>,
}

impl From<Failure> for NotAcquired {
    fn from(failure: Failure) -> Self {
        Self { failure, answer: None }
    }
}

/// Acquires the lock. Meanwhile a terminal shows who holds it.
///
/// Dropped, it withdraws the request in the background: await [`cleaned_up`] before the process ends.
pub(super) async fn acquire(
    client: &Client,
    lock_name: &str,
    lock: &LockArgs,
    servers: &ServerArgs,
) -> Result<Lock, NotAcquired> {
    require_one_store(servers).await?;
    let acquire = request(client, lock_name, lock)?;
    if lock.wait.is_zero() {
        return acquire.await.map_err(|error| not_acquired(&error, lock_name, lock, servers));
    }
    reachable(client, lock_name, servers).await?;
    let (sender, ahead) = watch::channel(None);
    let acquired = acquire.queue_position(sender).into_future();
    let result = if lock.quiet {
        acquired.await
    } else {
        tokio::select! {
            biased;
            result = acquired => result,
            never = waiting::show(client, lock_name, ahead) => match never {},
        }
    };
    result.map_err(|error| not_acquired(&error, lock_name, lock, servers))
}

/// Acquires several locks within the one wait, or none of them.
///
/// Dropped, it gives everything back in the background: await [`cleaned_up`] before the process ends.
pub(super) async fn acquire_all(
    client: &Client,
    lock_names: Vec<String>,
    lock: &LockArgs,
    servers: &ServerArgs,
) -> Result<Vec<Lock>, Failure> {
    require_one_store(servers).await?;
    if let Some(any) = lock_names.first().filter(|_| !lock.wait.is_zero()) {
        reachable(client, any, servers).await?;
    }
    each_key_once(&lock.metadata)?;
    let mut acquire = client.acquire_all(lock_names).wait(lock.wait);
    if let Some(ttl) = lock.ttl {
        acquire = acquire.ttl(ttl);
    }
    if let Some(max_hold) = lock.max_hold {
        acquire = acquire.max_hold(max_hold);
    }
    acquire = acquire.min_hold(lock.min_hold).lock_delay(lock.lock_delay);
    acquire = acquire.max_waiters(lock.max_waiters.unwrap_or_default());
    if let Some(owner) = &lock.owner {
        acquire = acquire.owner(owner);
    }
    if let Some(holder) = &lock.holder {
        acquire = acquire.holder(holder);
    }
    let acquire = lock.metadata.iter().fold(acquire, |acquire, (key, value)| acquire.metadata(key, value));
    acquire.await.map(LockSet::into_locks).map_err(|error| not_all_acquired(&error, lock, servers))
}

fn not_all_acquired(error: &AcquireAllError, lock: &LockArgs, servers: &ServerArgs) -> Failure {
    let back = |names: &[String]| match names {
        [] => String::new(),
        names => {
            format!("; given back: {}", names.iter().map(|name| text::visible(name)).collect::<Vec<_>>().join(", "))
        }
    };
    match error {
        AcquireAllError::NotAcquired { name, cause, given_back, .. } => {
            let failure = not_acquired(cause, name, lock, servers).failure;
            Failure { message: failure.message + &back(given_back), ..failure }
        }
        AcquireAllError::Lost { lost, given_back, .. } => {
            let message = format!("{lost}, before the last lock was acquired{}", back(given_back));
            Failure::new(NOT_ACQUIRED, message)
        }
        AcquireAllError::Names { .. } => Failure::new(COMMAND_LINE, error.to_string()),
        other => Failure::new(UNAVAILABLE, other.to_string()),
    }
}

/// Waits until abandoned requests are withdrawn and dropped locks released.
pub(super) async fn cleaned_up(client: &Client) {
    let _ = tokio::time::timeout(CLEANUP_TIMEOUT, client.flush()).await;
}

fn request(client: &Client, lock_name: &str, lock: &LockArgs) -> Result<Acquire, Failure> {
    each_key_once(&lock.metadata)?;
    let mut acquire = client.acquire(lock_name).wait(lock.wait).min_token(lock.min_token);
    if let Some(ttl) = lock.ttl {
        acquire = acquire.ttl(ttl);
    }
    if let Some(max_hold) = lock.max_hold {
        acquire = acquire.max_hold(max_hold);
    }
    if lock.shared {
        acquire = acquire.shared();
    }
    if let Some(limit) = lock.limit {
        acquire = acquire.semaphore(limit).permits(lock.permits).permit_limit_version(lock.limit_version);
    }
    acquire = acquire.min_hold(lock.min_hold).lock_delay(lock.lock_delay);
    acquire = acquire.max_waiters(lock.max_waiters.unwrap_or_default());
    if let Some(owner) = &lock.owner {
        acquire = acquire.owner(owner);
    }
    if let Some(holder) = &lock.holder {
        acquire = acquire.holder(holder);
    }
    if let Some(text) = &lock.request_id {
        let id = text.parse::<Uuid>();
        acquire = acquire.request_id(id.map_err(|_| Failure::new(USAGE, "--request-id must be a UUID"))?);
    }
    Ok(lock.metadata.iter().fold(acquire, |acquire, (key, value)| acquire.metadata(key, value)))
}

fn not_acquired(error: &AcquireError, name: &str, lock: &LockArgs, servers: &ServerArgs) -> NotAcquired {
    let refused = |message: String| Failure::new(NOT_ACQUIRED, message);
    let failure = match error {
        AcquireError::Contended { holders, holder_count, waiters, delay, semaphore, .. } => {
            let answer =
                answer(Outcome::Contended, (holders, *holder_count), delay.as_ref(), *waiters, semaphore.as_ref());
            let failure = refused(held(name, &answer) + &not_queued(lock));
            return NotAcquired { failure, answer: Some(answer) };
        }
        AcquireError::TimedOut { holders, holder_count, waiters, delay, semaphore, .. } => {
            let answer =
                answer(Outcome::TimedOut, (holders, *holder_count), delay.as_ref(), *waiters, semaphore.as_ref());
            let failure = refused(format!("timed out after {}: {}", text::span(lock.wait), held(name, &answer)));
            return NotAcquired { failure, answer: Some(answer) };
        }
        AcquireError::Invalid { message, violations } => Failure::new(USAGE, connect::invalid(message, violations)),
        AcquireError::Exhausted { message, retry_after, .. } => refused(connect::exhausted(message, *retry_after)),
        AcquireError::Ended => refused(connect::ENDED.to_owned()),
        AcquireError::Overtaken => refused(connect::OVERTAKEN.to_owned()),
        AcquireError::Unavailable { source }
        | AcquireError::OutcomeUnknown { source }
        | AcquireError::Refused { source } => failed(source, CallKind::Acquire, servers),
        AcquireError::LostOnArrival { token } => refused(format!(
            "{name} was granted (token {token}), but the lease had expired when the grant arrived: retry with a longer \
             --ttl"
        )),
        other => Failure::new(UNAVAILABLE, format!("{name}: {other}")),
    };
    failure.into()
}

/// The answer on the wire.
fn answer(
    outcome: Outcome,
    (holders, holder_count): (&[Holder], u32),
    delay: Option<&LockDelay>,
    waiters: u32,
    semaphore: Option<&SemaphoreInfo>,
) -> AcquireResponse {
    let holders: Vec<_> = holders.iter().cloned().map(Into::into).collect();
    let (delay, semaphore) = (delay.cloned().map(Into::into), semaphore.copied().map(Into::into));
    AcquireResponse { outcome: outcome.into(), holders, holder_count, waiters, delay, semaphore, ..Default::default() }
}

/// Why a request that would have waited was not queued.
fn not_queued(lock: &LockArgs) -> String {
    match lock.max_waiters {
        Some(max) if !lock.wait.is_zero() => format!(": not queued, since --max-waiters is {max}"),
        _ => String::new(),
    }
}

fn held(name: &str, answer: &AcquireResponse) -> String {
    text::held(name, (&answer.holders, answer.holder_count), answer.delay.as_ref(), answer.waiters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_client::raw::v1::LockHolder;

    fn refusal(error: &AcquireError, wait: Duration) -> NotAcquired {
        let lock = LockArgs { wait, ..LockArgs::default() };
        not_acquired(error, "a", &lock, &ServerArgs::default())
    }

    #[test]
    fn refusals_name_the_holder() {
        let holder = LockHolder { holder: "worker-7".to_owned(), fencing_token: 9, ..Default::default() };
        let (name, holders) = ("a".to_owned(), vec![Holder::from(holder)]);
        let contended = AcquireError::Contended {
            name: name.clone(),
            holders: holders.clone(),
            holder_count: 10_000,
            waiters: 2,
            delay: None,
            semaphore: None,
        };
        let refused = refusal(&contended, Duration::ZERO);
        let message = "a is held by worker-7 (token 9) for another 0 ms and 9999 more; 2 waiters";
        assert_eq!(refused.failure, Failure::new(NOT_ACQUIRED, message));
        let answer = refused.answer.unwrap();
        assert_eq!((answer.outcome(), answer.holder_count, answer.waiters), (Outcome::Contended, 10_000, 2));
        let lock = LockArgs { wait: Duration::from_secs(10), max_waiters: Some(2), ..LockArgs::default() };
        let unqueued = not_acquired(&contended, "a", &lock, &ServerArgs::default()).failure;
        assert_eq!(unqueued, Failure::new(NOT_ACQUIRED, format!("{message}: not queued, since --max-waiters is 2")));
        let holder_count = 1;
        let late = AcquireError::TimedOut { name, holders, holder_count, waiters: 0, delay: None, semaphore: None };
        let refused = refusal(&late, Duration::from_secs(10));
        assert!(refused.failure.message.starts_with("timed out after 10 s: a is held by worker-7"), "{refused:?}");
        assert_eq!(refused.answer.unwrap().outcome(), Outcome::TimedOut);
    }

    #[test]
    fn an_unknown_answer_is_a_failure() {
        let refused = refusal(&AcquireError::Answer, Duration::ZERO);
        assert!(refused.failure.code == UNAVAILABLE && refused.answer.is_none());
    }
}
