//! Errors of a call, and what they say about its effect.

use crate::address::ServerAddress;
use crate::greeting::{Evidence, Greeting, Why};
use crate::tls::TlsFailure;
use crate::v1;
use prost::Message as _;
use std::{error::Error as _, fmt, time::Duration};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// A call that the server refused, or whose outcome is unknown.
///
/// Contention is not an error: it is an outcome in the response.
#[derive(Clone)]
pub struct CallError {
    status: Box<Status>,
    maybe_sent: bool,
    /// The server, if no connection to it could be established.
    unreached: Option<String>,
    /// Why the server cannot be called.
    explanation: Option<Box<Explanation>>,
}

#[derive(Clone, Debug)]
struct Explanation {
    text: String,
    /// What went wrong in TLS. If nothing did, the server does not speak gRPC.
    tls: Option<TlsFailure>,
    /// Whether that stays until somebody changes certificates.
    is_hopeless: bool,
}

/// The reasons of transient errors with which a server says that it did nothing.
const NOTHING_DONE: [&str; 5] = ["STORE_UNAVAILABLE", "STORE_OVERLOADED", "TOO_LATE", "REQUEST_TOO_SLOW", "DRAINING"];

/// A field of a request that broke a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldViolation {
    /// The path of the field.
    pub field: String,
    /// The rule.
    pub description: String,
}

impl CallError {
    pub(crate) fn new(status: Status) -> Self {
        let mut error = Self { status: Box::new(status), maybe_sent: true, unreached: None, explanation: None };
        error.maybe_sent = !failed_to_connect(&error.status) && !error.did_nothing();
        error
    }

    /// An operation that failed before a connection took it.
    pub(crate) fn unsent(status: Status) -> Self {
        Self { status: Box::new(status), maybe_sent: false, unreached: None, explanation: None }
    }

    /// The error of one operation of a session.
    pub(crate) fn from_operation(error: &v1::OperationError) -> Self {
        // It has the fields of `google.rpc.Status`, which a status carries as its details.
        let details = error.encode_to_vec();
        Self::new(Status::with_details(Code::from(error.code), error.message.clone(), details.into()))
    }

    /// Records that an earlier transmission of the request may have been sent.
    pub(crate) fn after_sending(mut self, maybe_sent: bool) -> Self {
        self.maybe_sent |= maybe_sent;
        self
    }

    /// Adds the address if no connection could be established, and the reason if connections to it showed why the
    /// server cannot be called.
    pub(crate) fn with_greeting(mut self, address: &ServerAddress, greeting: &Greeting) -> Self {
        self.unreached = failed_to_connect(&self.status).then(|| address.to_string());
        let Some(Evidence { why, maybe_sent, is_certain }) = greeting.evidence().filter(|_| self.is_transient()) else {
            return self;
        };
        let explanation = match why {
            Why::Tls(failure) => {
                let is_hopeless = is_certain && failure.is_lasting();
                Explanation { text: format!("{address}: {failure}"), tls: Some(failure), is_hopeless }
            }
            Why::NotGrpc(_) if failed_to_connect(&self.status) => return self,
            Why::NotGrpc(words) => Explanation { text: format!("{address} {words}"), tls: None, is_hopeless: false },
        };
        self.maybe_sent &= maybe_sent;
        self.explanation = Some(Box::new(explanation));
        self
    }

    /// The reason why the port is known not to speak gRPC: a web server or a Redis answered, or nothing did, as if a
    /// server hung.
    ///
    /// Always `None` for a server added with [`ClientBuilder::endpoint`](crate::ClientBuilder::endpoint).
    pub fn not_grpc(&self) -> Option<&str> {
        self.explanation.as_deref().filter(|it| it.tls.is_none()).map(|it| it.text.as_str())
    }

    /// Why TLS with the server failed. If that stays until somebody changes certificates, on either side, the call was
    /// not retried.
    ///
    /// Always `None` for a server added with [`ClientBuilder::endpoint`](crate::ClientBuilder::endpoint).
    pub fn tls_failure(&self) -> Option<&TlsFailure> {
        self.explanation.as_deref().and_then(|it| it.tls.as_ref())
    }

    /// Whether the server may have applied the call. If so, retry it with the same ids: retries have the effect of one
    /// call.
    ///
    /// False for a refusal, if no transmission reached a server that speaks gRPC, and if all of them were answered with
    /// [`did_nothing`](Self::did_nothing).
    pub fn is_outcome_unknown(&self) -> bool {
        self.maybe_sent && self.is_transient()
    }

    /// Whether no server that speaks gRPC was reached. Nothing was done.
    pub fn is_unreachable(&self) -> bool {
        !self.maybe_sent && self.is_transient() && !self.did_nothing()
    }

    /// Whether a server answered that it did nothing, although a later retry may succeed: it drains, for example.
    /// Earlier transmissions of the call may have been applied nevertheless
    /// ([`is_outcome_unknown`](Self::is_outcome_unknown)).
    pub fn did_nothing(&self) -> bool {
        self.code() == Code::Unavailable && self.reason().is_some_and(|reason| NOTHING_DONE.contains(&reason.as_str()))
    }

    /// Why the server cannot be called, as its port showed it: [`not_grpc`](Self::not_grpc) or
    /// [`tls_failure`](Self::tls_failure), with the server's address.
    pub fn explanation(&self) -> Option<&str> {
        self.explanation.as_deref().map(|it| it.text.as_str())
    }

    /// Whether retries on this server fail until somebody changes certificates.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.explanation.as_deref().is_some_and(|it| it.is_hopeless)
    }

    /// Whether a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self.status.code() {
            Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded => true,
            // A status made on this side for a broken connection has a source; one that a server sent has none.
            _ => self.status.source().is_some(),
        }
    }

    /// Whether the session had too many operations and did nothing. The operation may be retried.
    pub(crate) fn is_session_full(&self) -> bool {
        self.code() == Code::ResourceExhausted && self.reason().as_deref() == Some("SESSION_FULL")
    }

    /// Whether the request has ended, by any of its transmissions.
    pub(crate) fn is_request_ended(&self) -> bool {
        self.code() == Code::Aborted && self.reason().as_deref() == Some("REQUEST_ENDED")
    }

    /// Whether the server drains.
    pub(crate) fn is_draining(&self) -> bool {
        self.code() == Code::Unavailable && self.reason().as_deref() == Some("DRAINING")
    }

    /// The gRPC code.
    pub fn code(&self) -> Code {
        self.status.code()
    }

    /// The server's message.
    pub fn message(&self) -> &str {
        self.status.message()
    }

    /// The reason in the server's `google.rpc.ErrorInfo`, such as `OVERTAKEN`.
    pub fn reason(&self) -> Option<String> {
        self.status.get_details_error_info().map(|info| info.reason)
    }

    /// The fields that broke a rule, from the server's `google.rpc.BadRequest`.
    pub fn field_violations(&self) -> Vec<FieldViolation> {
        let violations = self.status.get_details_bad_request().map(|bad| bad.field_violations).unwrap_or_default();
        let violation = |v: tonic_types::FieldViolation| FieldViolation { field: v.field, description: v.description };
        violations.into_iter().map(violation).collect()
    }

    /// How long the server asks to wait before a retry, from its `google.rpc.RetryInfo`.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.status.get_details_retry_info().and_then(|info| info.retry_delay)
    }

    /// The gRPC status.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// The gRPC status.
    pub fn into_status(self) -> Status {
        *self.status
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_outcome_unknown() {
            write!(f, "outcome unknown: ")?;
        }
        if let Some(explanation) = &self.explanation {
            return f.write_str(&explanation.text);
        }
        if let Some(server) = &self.unreached {
            return write!(f, "{server}: {}", root_cause(&*self.status));
        }
        if self.message().is_empty() { write!(f, "{}", self.code()) } else { write!(f, "{}", self.message()) }
    }
}

impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("CallError");
        debug.field("code", &self.code()).field("message", &self.message()).field("reason", &self.reason());
        debug.field("maybe_sent", &self.maybe_sent).field("explanation", &self.explanation).finish_non_exhaustive()
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.status.source()
    }
}

/// Whether the status was made because no connection could be established.
fn failed_to_connect(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// The innermost error of a chain. The outer ones only say that an inner one occurred.
fn root_cause<'e>(mut error: &'e (dyn std::error::Error + 'static)) -> &'e (dyn std::error::Error + 'static) {
    while let Some(below) = error.source() {
        error = below;
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::ErrorDetails;

    #[test]
    fn reads_the_details() {
        let mut details = ErrorDetails::with_retry_info(Some(Duration::from_millis(250)));
        details.set_error_info("OVERTAKEN", "fencepost", std::collections::HashMap::new());
        details.add_bad_request_violation("ttl", "must be at least 1s");
        let error = CallError::new(Status::with_error_details(Code::Aborted, "no", details));
        assert_eq!(error.reason().as_deref(), Some("OVERTAKEN"));
        assert_eq!(error.retry_delay(), Some(Duration::from_millis(250)));
        assert_eq!(error.field_violations()[0].field, "ttl");
        assert!(!error.is_outcome_unknown() && !error.is_transient());
    }

    #[test]
    fn an_operation_fails_like_its_unary_call() {
        let mut details = ErrorDetails::with_retry_info(Some(Duration::from_millis(250)));
        details.set_error_info("SESSION_FULL", "fencepost", std::collections::HashMap::new());
        let status = Status::with_error_details(Code::ResourceExhausted, "too much", details);
        let error = v1::OperationError::decode(status.details()).unwrap();
        assert_eq!((error.code, error.message.as_str()), (8, "too much"));
        let error = CallError::from_operation(&error);
        assert!(error.is_session_full() && !error.is_outcome_unknown());
        assert_eq!((error.code(), error.message()), (Code::ResourceExhausted, "too much"));
        assert_eq!(error.retry_delay(), Some(Duration::from_millis(250)));
    }

    #[test]
    fn a_server_that_did_nothing_leaves_no_unknown_outcome() {
        let with_reason = |reason: &str| {
            let mut details = ErrorDetails::new();
            details.set_error_info(reason, "fencepost", std::collections::HashMap::new());
            CallError::new(Status::with_error_details(Code::Unavailable, "no", details))
        };
        for reason in NOTHING_DONE {
            assert!(crate::facts::REASONS.contains(&(reason, "UNAVAILABLE")), "{reason}");
            let error = with_reason(reason);
            assert!(error.is_transient() && error.did_nothing(), "{reason}");
            assert!(!error.is_outcome_unknown() && !error.is_unreachable(), "{reason}");
            // An earlier transmission may have been applied.
            assert!(error.after_sending(true).is_outcome_unknown(), "{reason}");
        }
        assert!(with_reason("OUTCOME_UNKNOWN").is_outcome_unknown());
    }

    #[test]
    fn unknown_outcomes_are_recognised() {
        for status in [Status::unavailable(""), Status::cancelled(""), Status::deadline_exceeded("")] {
            assert!(CallError::new(status).is_outcome_unknown());
        }
        for status in [Status::invalid_argument(""), Status::unknown("sent by a server"), Status::internal("")] {
            assert!(!CallError::new(status).is_outcome_unknown());
        }
        let broken = Status::from_error("connection reset".into());
        assert!(CallError::new(broken).is_outcome_unknown());
        let refused = Status::from_error(Box::new(tonic::ConnectError("refused".into())));
        let refused = CallError::new(refused);
        assert!(refused.is_transient() && refused.is_unreachable() && !refused.is_outcome_unknown());
        assert!(refused.after_sending(true).is_outcome_unknown());
    }
}
