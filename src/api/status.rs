//! Converts the service's errors into gRPC statuses.

use super::fields::Fields;
use crate::{
    domain::{limits::RETRY_DELAY, mode::PermitLimit},
    locks::{
        Denied, Forbidden, LocksError, NotPermitted, OverQuota,
        keepalive::{SessionError, StreamError},
    },
    store::StoreError,
};
use std::{collections::HashMap, time::Duration};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, QuotaViolation, StatusExt};

/// The domain of all reasons.
const DOMAIN: &str = "fencepost";

/// Adds the reason, by which programs tell errors apart.
pub(super) fn with_reason(details: &mut ErrorDetails, reason: &str) {
    details.set_error_info(reason, DOMAIN, HashMap::new());
}

/// The status of a call whose deadline is over.
pub fn deadline_exceeded() -> Status {
    let mut details = ErrorDetails::new();
    with_reason(&mut details, "DEADLINE_OVER");
    let message = "the deadline of the call is over; the call may or may not have taken effect";
    Status::with_error_details(Code::DeadlineExceeded, message, details)
}

/// The status of a call whose message has not arrived within `max`.
pub fn request_too_slow(max: Duration) -> Status {
    let mut details = ErrorDetails::new();
    with_reason(&mut details, "REQUEST_TOO_SLOW");
    details.set_retry_info(Some(RETRY_DELAY));
    Status::with_error_details(
        Code::Unavailable,
        format!("the message of the request did not arrive within {max:?}; nothing was done"),
        details,
    )
}

/// The status of a call that is above the bound of the calls that are open on `of`.
pub fn too_many_calls(what: &str, max: usize) -> Status {
    let mut details = ErrorDetails::new();
    with_reason(&mut details, "SERVER_FULL");
    details.set_retry_info(Some(RETRY_DELAY));
    let message = format!("{max} {what}, the maximum; nothing was done");
    Status::with_error_details(Code::ResourceExhausted, message, details)
}

/// The status of a request that tonic could not read, for which it says INTERNAL; `None` for any other status. No call
/// of this server ends with INTERNAL itself.
pub fn unreadable(status: &Status) -> Option<Status> {
    let why = (status.code() == Code::Internal).then(|| status.message())?;
    Some(refused("message", &format!("must be readable as a message of this call: {why}")))
}

/// What the caller should do next is in the code, the reason and the retry delay.
impl From<LocksError> for Status {
    fn from(error: LocksError) -> Self {
        let (code, reason, retry): (Code, &str, Option<Duration>) = match &error {
            LocksError::Overtaken => (Code::Aborted, "OVERTAKEN", None),
            LocksError::Ended => (Code::Aborted, "REQUEST_ENDED", None),
            LocksError::OtherTerms => {
                return refused("request_id", "was used before with other parameters: use a new one for a new request");
            }
            LocksError::MinTokenTooHigh { max } => {
                return refused("min_token", &format!("must be at most {max}: 24 h above the server's time"));
            }
            LocksError::Store(StoreError::BadPageToken) => {
                return refused("page_token", "must be one that a page of this listing gave");
            }
            LocksError::QueueFull { .. } => (Code::ResourceExhausted, "QUEUE_FULL", Some(RETRY_DELAY)),
            LocksError::ServerFull { .. } => (Code::ResourceExhausted, "SERVER_FULL", Some(RETRY_DELAY)),
            LocksError::SessionFull { .. } => (Code::ResourceExhausted, "SESSION_FULL", Some(RETRY_DELAY)),
            LocksError::WatchersFull { .. } => (Code::ResourceExhausted, "WATCHERS_FULL", Some(RETRY_DELAY)),
            LocksError::Shared => (Code::Unavailable, "ATTEMPT_SHARED", Some(RETRY_DELAY)),
            LocksError::Forgotten => (Code::Unavailable, "PLACE_LOST", Some(RETRY_DELAY)),
            LocksError::Draining => (Code::Unavailable, "DRAINING", Some(RETRY_DELAY)),
            LocksError::TokensExhausted => (Code::FailedPrecondition, "TOKENS_EXHAUSTED", None),
            LocksError::BesideClassic => (Code::FailedPrecondition, "BESIDE_CLASSIC", None),
            LocksError::TokenOutdated => (Code::Aborted, "TOKEN_OUTDATED", None),
            LocksError::NotConvertible => (Code::FailedPrecondition, "NOT_CONVERTIBLE", None),
            LocksError::ModeMismatch => (Code::FailedPrecondition, "MODE_MISMATCH", None),
            LocksError::LimitMismatch(_) => (Code::FailedPrecondition, "PERMIT_LIMIT_MISMATCH", None),
            LocksError::Store(StoreError::NotAllServers { .. }) => (Code::FailedPrecondition, "NOT_ALL_SERVERS", None),
            LocksError::Store(StoreError::Unavailable(_)) => {
                (Code::Unavailable, "STORE_UNAVAILABLE", Some(RETRY_DELAY))
            }
            LocksError::Store(StoreError::Overloaded) => (Code::Unavailable, "STORE_OVERLOADED", Some(RETRY_DELAY)),
            LocksError::Store(StoreError::TooLate) => (Code::Unavailable, "TOO_LATE", Some(RETRY_DELAY)),
            LocksError::Store(StoreError::OutcomeUnknown(_)) => {
                (Code::Unavailable, "OUTCOME_UNKNOWN", Some(RETRY_DELAY))
            }
            LocksError::Store(StoreError::Corrupt(_)) => (Code::DataLoss, "STORE_CORRUPT", None),
            LocksError::Denied(denied) => return self::denied(denied),
            LocksError::OverQuota(over) => return over_quota(over),
        };
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, DOMAIN, metadata(&error));
        if let Some(delay) = retry {
            details.set_retry_info(Some(delay));
        }
        Self::with_error_details(code, error.to_string(), details)
    }
}

/// The status of a caller who may not do what it asks for.
fn denied(denied: &Denied) -> Status {
    let (code, reason) = match denied {
        Denied::CredentialsMissing => (Code::Unauthenticated, "CREDENTIALS_MISSING"),
        Denied::CredentialsInvalid => (Code::Unauthenticated, "CREDENTIALS_INVALID"),
        Denied::CredentialsExpired => (Code::Unauthenticated, "CREDENTIALS_EXPIRED"),
        Denied::NotPermitted(_) => (Code::PermissionDenied, "NOT_PERMITTED"),
    };
    let mut metadata = HashMap::new();
    if let Denied::NotPermitted(not_permitted) = denied {
        let NotPermitted { identity, verb, on } = &**not_permitted;
        metadata.insert("identity".to_owned(), identity.clone());
        metadata.insert("verb".to_owned(), (*verb).to_owned());
        match on {
            Forbidden::Lock(name) => drop(metadata.insert("lock_name".to_owned(), name.clone())),
            Forbidden::Prefix { prefix, .. } => drop(metadata.insert("prefix".to_owned(), prefix.clone())),
            Forbidden::Server => {}
        }
    }
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, DOMAIN, metadata);
    Status::with_error_details(code, denied.to_string(), details)
}

/// The status of a caller who has used up a quota.
fn over_quota(over: &OverQuota) -> Status {
    let OverQuota { subject, limit, max, retry_in } = over;
    let metadata = [("caller", subject.clone()), ("limit", (*limit).to_owned()), ("max", max.to_string())];
    let mut details = ErrorDetails::new();
    details.set_error_info("QUOTA_EXCEEDED", DOMAIN, metadata.map(|(name, value)| (name.to_owned(), value)));
    details.set_retry_info(Some(*retry_in));
    let mut violation = QuotaViolation::new(subject, over.to_string());
    (*limit).clone_into(&mut violation.quota_id);
    violation.quota_value = i64::from(*max);
    details.set_quota_failure(vec![violation]);
    Status::with_error_details(Code::ResourceExhausted, over.to_string(), details)
}

/// The status with which a session or a KeepAlive stream ends.
impl From<SessionError<Status>> for Status {
    fn from(error: SessionError<Status>) -> Self {
        match error {
            SessionError::Inbound(status) => unreadable(&status).unwrap_or(status),
            SessionError::Stream(StreamError::Gone(error)) => error.into(),
            SessionError::Stream(error @ StreamError::HandleInUse(_)) => refused("handle", &error.to_string()),
            SessionError::Stream(error @ StreamError::OperationNumber(_)) => refused("operation", &error.to_string()),
            SessionError::Stream(error @ (StreamError::BeatNotSent(_) | StreamError::BeatBackwards { .. })) => {
                refused("answer.beat", &error.to_string())
            }
        }
    }
}

/// What programs may want to know beyond the reason.
fn metadata(error: &LocksError) -> HashMap<String, String> {
    let LocksError::LimitMismatch(PermitLimit { permits, version }) = error else { return HashMap::new() };
    let numbers = [("permit_limit", permits.to_string()), ("permit_limit_version", version.to_string())];
    numbers.map(|(name, number)| (name.to_owned(), number)).into()
}

fn refused(field: &str, rule: &str) -> Status {
    let mut fields = Fields::default();
    fields.refuse(field, rule);
    fields.into_status()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANUAL: &str = include_str!("../../proto/fencepost/v1/lock.proto");

    fn not_permitted() -> NotPermitted {
        NotPermitted { identity: "a".to_owned(), verb: "read", on: Forbidden::Lock("b".to_owned()) }
    }

    fn over_quota() -> OverQuota {
        OverQuota { subject: "a".to_owned(), limit: "waits", max: 3, retry_in: Duration::from_secs(1) }
    }

    #[test]
    fn a_quota_says_which_limit_is_reached_and_when_to_try_again() {
        let status = Status::from(LocksError::from(over_quota()));
        let violation = &status.get_details_quota_failure().unwrap().violations[0];
        assert_eq!((&*violation.subject, &*violation.quota_id, violation.quota_value), ("a", "waits", 3));
        assert_eq!(status.get_details_retry_info().unwrap().retry_delay, Some(Duration::from_secs(1)));
        assert_eq!(status.get_details_error_info().unwrap().metadata["limit"], "waits");
    }

    #[test]
    fn each_reason_is_in_the_manual_of_the_api() {
        let (max, what, why) = (1, "operations", String::new);
        let errors = [
            LocksError::Overtaken,
            LocksError::Ended,
            LocksError::OtherTerms,
            LocksError::QueueFull { max },
            LocksError::ServerFull { max },
            LocksError::SessionFull { what, max },
            LocksError::WatchersFull { max },
            LocksError::Shared,
            LocksError::Forgotten,
            LocksError::Draining,
            LocksError::TokensExhausted,
            LocksError::BesideClassic,
            LocksError::ModeMismatch,
            LocksError::TokenOutdated,
            LocksError::NotConvertible,
            LocksError::LimitMismatch(PermitLimit { permits: 1, version: 0 }),
            StoreError::Unavailable(why()).into(),
            StoreError::Overloaded.into(),
            StoreError::TooLate.into(),
            StoreError::OutcomeUnknown(why()).into(),
            StoreError::Corrupt(why()).into(),
            StoreError::NotAllServers { feature: "max_hold".to_owned(), lacking: 1, all: 2 }.into(),
            Denied::CredentialsMissing.into(),
            Denied::CredentialsInvalid.into(),
            Denied::CredentialsExpired.into(),
            Denied::NotPermitted(Box::new(not_permitted())).into(),
            over_quota().into(),
        ];
        let is_name = |word: &&str| word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        let row = |line: &'static str| {
            let mut words = line.strip_prefix("//   ")?.split_whitespace();
            Some((words.next().filter(is_name)?, words.next().filter(is_name)?))
        };
        let mut listed: Vec<_> = MANUAL.lines().filter_map(row).collect();
        let statuses =
            errors.map(Status::from).into_iter().chain([request_too_slow(Duration::from_secs(1)), deadline_exceeded()]);
        for status in statuses {
            let reason = status.get_details_error_info().unwrap().reason;
            let code = format!("{:?}", status.code());
            let is_it =
                |(listed, name): &(&str, &str)| listed.replace('_', "").eq_ignore_ascii_case(&code) && *name == reason;
            listed.remove(listed.iter().position(is_it).unwrap_or_else(|| panic!("{code} {reason} is not listed")));
        }
        assert!(listed.is_empty(), "nothing answers {listed:?}");
    }

    #[test]
    fn a_number_that_ends_a_stream_is_named_once() {
        let message = |error| Status::from(SessionError::Stream(error)).message().to_owned();
        let handle = message(StreamError::HandleInUse(7));
        assert!(handle.starts_with("handle 7 is in use on this stream: "), "{handle}");
        let operation = message(StreamError::OperationNumber(0));
        assert!(operation.starts_with("operation 0 is 0 or in use: "), "{operation}");
        let unsent = message(StreamError::BeatNotSent(3));
        assert_eq!(unsent, "answer.beat 3 was not sent on this stream");
        let late = message(StreamError::BeatBackwards { beat: 2, answered: 3 });
        assert!(late.starts_with("answer.beat 2 was answered after 3: "), "{late}");
    }
}
