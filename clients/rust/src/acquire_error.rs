//! Why a lock was not acquired.

use crate::code::Code;
use crate::error::{CallError, FieldViolation};
use crate::info::SemaphoreInfo;
use crate::v1;
use crate::values::{Holder, LockDelay};
use std::time::Duration;

/// Why a lock was not acquired. Nothing is held afterwards, or a background cleanup releases it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The lock is not free, and no wait was requested, or as many as [`max_waiters`](crate::Acquire::max_waiters)
    /// allows wait already.
    #[error("{}", describe(.name, (.holders, *.holder_count), .delay.as_ref(), *.waiters))]
    Contended {
        /// The lock's name.
        name: String,
        /// The holders; empty while the lock is offered to the next waiter, and if a delay alone keeps it. One, or the
        /// oldest of those that share it: at most 8.
        holders: Vec<Holder>,
        /// How many holders the lock has in all.
        holder_count: u32,
        /// The number of waiters.
        waiters: u32,
        /// Why nobody gets the lock, if nobody holds it, or why a place of it is not free beside the holders.
        delay: Option<LockDelay>,
        /// The permits, if the lock is held as a semaphore.
        semaphore: Option<SemaphoreInfo>,
    },
    /// The wait ended without a grant.
    #[error("timed out waiting for {name}: {}", describe("it", (.holders, *.holder_count), .delay.as_ref(), *.waiters))]
    TimedOut {
        /// The lock's name.
        name: String,
        /// The holders; empty while the lock is offered to the next waiter, and if a delay alone keeps it. One, or the
        /// oldest of those that share it: at most 8.
        holders: Vec<Holder>,
        /// How many holders the lock has in all.
        holder_count: u32,
        /// The number of other waiters.
        waiters: u32,
        /// Why nobody gets the lock, if nobody holds it, or why a place of it is not free beside the holders.
        delay: Option<LockDelay>,
        /// The permits, if the lock is held as a semaphore.
        semaphore: Option<SemaphoreInfo>,
    },
    /// The request breaks a rule. Retrying it is useless.
    #[error("{message} (INVALID_FIELD)")]
    Invalid {
        /// The server's message, or this client's if the request is too large to send.
        message: String,
        /// The fields and the rules that they broke.
        violations: Vec<FieldViolation>,
    },
    /// A queue, a session or the whole server is full, or your quota on the server is used up. Retry after
    /// `retry_after`. Above a quota, an acquire that waits repeats by itself until its wait is over.
    #[error("{}", with_reason(.message, .reason))]
    Exhausted {
        /// The server's message.
        message: String,
        /// Which limit is reached, such as `QUEUE_FULL`; may be empty.
        reason: String,
        /// How long to wait before retrying, if the server said so.
        retry_after: Option<Duration>,
    },
    /// The request with this id has already ended: retry with a new id. After a retry it means that the servers did not
    /// hear from the request for too long: they gave up its queue position, or its lease ended before the answer
    /// arrived. The client starts again by itself unless the id was set or the wait is over.
    #[error("this request has already ended (REQUEST_ENDED)")]
    Ended,
    /// Another caller retried this request id with a higher attempt number.
    #[error("a newer attempt of this request took over (OVERTAKEN)")]
    Overtaken,
    /// Nothing was done, and a later retry may succeed: no server could be reached, or each one that answered said that
    /// it did nothing, because it drains or cannot reach its store ([`CallError::reason`]).
    #[error(transparent)]
    Unavailable {
        /// The error of the last transmission.
        source: CallError,
    },
    /// The server may have granted the lock; a background cleanup releases it.
    #[error(transparent)]
    OutcomeUnknown {
        /// The error of the last transmission.
        source: CallError,
    },
    /// The lock was granted, but its lease was no longer valid when the answer arrived, and the wait was over (or the
    /// request id was set). It is being released.
    #[error("granted with token {token}, but no longer valid on arrival")]
    LostOnArrival {
        /// The fencing token of that lease.
        token: u64,
    },
    /// The server refused the call for another reason.
    #[error(transparent)]
    Refused {
        /// The server's error.
        source: CallError,
    },
    /// The server's answer is malformed, or from a newer version.
    #[error("the server's answer is malformed, or from a newer version")]
    Answer,
}

impl AcquireError {
    pub(crate) fn contended(name: String, answer: v1::AcquireResponse) -> Self {
        let (delay, semaphore) = (answer.delay.map(Into::into), answer.semaphore.map(Into::into));
        let (holders, holder_count, waiters) = (holders(answer.holders), answer.holder_count, answer.waiters);
        Self::Contended { name, holders, holder_count, waiters, delay, semaphore }
    }

    pub(crate) fn timed_out(name: String, answer: v1::AcquireResponse) -> Self {
        let (delay, semaphore) = (answer.delay.map(Into::into), answer.semaphore.map(Into::into));
        let (holders, holder_count, waiters) = (holders(answer.holders), answer.holder_count, answer.waiters);
        Self::TimedOut { name, holders, holder_count, waiters, delay, semaphore }
    }
}

fn holders(holders: Vec<v1::LockHolder>) -> Vec<Holder> {
    holders.into_iter().map(Into::into).collect()
}

impl From<CallError> for AcquireError {
    fn from(source: CallError) -> Self {
        if source.is_outcome_unknown() {
            return Self::OutcomeUnknown { source };
        }
        if source.is_unavailable() {
            return Self::Unavailable { source };
        }
        let message = source.message().to_owned();
        match (source.code(), source.reason()) {
            (Code::InvalidArgument, _) => Self::Invalid { message, violations: source.field_violations() },
            (Code::ResourceExhausted, reason) => {
                let (reason, retry_after) = (reason.unwrap_or_default(), source.retry_delay());
                Self::Exhausted { message, reason, retry_after }
            }
            (Code::Aborted, Some(reason)) if reason == "OVERTAKEN" => Self::Overtaken,
            (Code::Aborted, Some(reason)) if reason == "REQUEST_ENDED" => Self::Ended,
            _ => Self::Refused { source },
        }
    }
}

fn with_reason(message: &str, reason: &str) -> String {
    if reason.is_empty() { message.to_owned() } else { format!("{message} ({reason})") }
}

/// Who holds the lock `name`, or why nobody gets it, and how many wait.
fn describe(name: &str, holders: (&[Holder], u32), delay: Option<&LockDelay>, waiters: u32) -> String {
    let state = match (holders, delay) {
        (([], _), Some(delay)) => delay.to_string(),
        (([], _), None) => "is being offered to the next waiter".to_owned(),
        ((holders, count), None) => held(holders, count),
        ((holders, count), Some(delay)) => format!("{}, and a place of it {delay}", held(holders, count)),
    };
    format!("{name} {state}, {waiters} waiting")
}

/// Names the holders that have a label, and counts all others: those without one, and those that are not shown.
fn held(holders: &[Holder], count: u32) -> String {
    let labels: Vec<_> = holders.iter().map(|it| it.label.as_str()).filter(|label| !label.is_empty()).collect();
    let more = u32::try_from(labels.len()).map_or(0, |named| count.saturating_sub(named));
    match (labels.as_slice(), more) {
        ([], 0 | 1) => "is held".to_owned(),
        ([], _) => format!("is held by {count} holders"),
        (_, 0) => format!("is held by {}", labels.join(" and ")),
        (_, _) => format!("is held by {} and {more} more", labels.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_lock_and_its_holders() {
        let holder = |label: &str| Holder { label: label.to_owned(), ..Default::default() };
        let delay =
            |holder: &str| LockDelay { remaining: Duration::from_millis(24_300), holder: holder.into(), token: 7 };
        let two = || vec![holder("a"), holder("b")];
        for (holders, holder_count, delay, state) in [
            (vec![], 0, None, "is being offered to the next waiter, 2 waiting"),
            (vec![], 0, Some(delay("a")), "is unavailable for another 24.3s (delay after a), 2 waiting"),
            (vec![], 0, Some(delay("")), "is unavailable for another 24.3s (delay after its last lease), 2 waiting"),
            (vec![holder("")], 1, None, "is held, 2 waiting"),
            (vec![holder("")], 9, None, "is held by 9 holders, 2 waiting"),
            (vec![holder("a")], 1, None, "is held by a, 2 waiting"),
            (two(), 2, None, "is held by a and b, 2 waiting"),
            (two(), 10_000, None, "is held by a and b and 9998 more, 2 waiting"),
            (vec![holder("a"), holder(""), holder("b")], 3, None, "is held by a and b and 1 more, 2 waiting"),
            (
                two(),
                3,
                Some(delay("c")),
                "is held by a and b and 1 more, and a place of it is unavailable for another 24.3s (delay after c), \
                 2 waiting",
            ),
        ] {
            let (name, waiters, semaphore) = ("orders/42".to_owned(), 2, None);
            let of_contended = (name.clone(), holders.clone(), delay.clone());
            let late = AcquireError::TimedOut { name, holders, holder_count, waiters, delay, semaphore };
            let (name, holders, delay) = of_contended;
            let contended = AcquireError::Contended { name, holders, holder_count, waiters, delay, semaphore };
            assert_eq!(contended.to_string(), format!("orders/42 {state}"));
            assert_eq!(late.to_string(), format!("timed out waiting for orders/42: it {state}"));
        }
    }
}
