//! Errors of a call, and what they say about its effect.

use crate::address::ServerAddress;
use crate::code::Code;
use crate::facts;
use crate::greeting::{Evidence, Greeting, Why};
use crate::tls::TlsFailure;
use crate::v1;
use prost::Message as _;
use std::{error::Error as _, fmt, time::Duration};
use tonic::Status;
use tonic_types::StatusExt as _;

/// A call that the server refused, or whose outcome is unknown.
///
/// Contention is not an error: it is an outcome in the response.
/// Its text is complete: [`source`](std::error::Error::source) is always `None`.
#[derive(Clone)]
pub struct CallError {
    status: Box<Status>,
    maybe_sent: bool,
    /// Whether a server refused the stream of the operation, and so did nothing for it.
    stream_refused: bool,
    /// The server of the last transmission, if known.
    server: Option<String>,
    /// Why the server cannot be called.
    explanation: Option<Box<Explanation>>,
    /// What is wrong with each server that was tried, if there were several.
    tried: Vec<String>,
    /// What a server answered to an earlier transmission, if the last one got no answer.
    earlier: Option<Box<CallError>>,
}

#[derive(Clone, Debug)]
struct Explanation {
    /// Begins with the server's address.
    text: String,
    why: Reason,
    /// Whether that stays until somebody changes addresses, certificates or servers.
    is_permanent: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    NotGrpc,
    Tls(TlsFailure),
    NotFencepost,
}

/// The reasons of transient errors with which a server says that it did nothing.
const NOTHING_DONE: [&str; 5] = ["STORE_UNAVAILABLE", "STORE_OVERLOADED", "TOO_LATE", "REQUEST_TOO_SLOW", "DRAINING"];

/// The reason of a call above the quota of its caller.
const OVER_QUOTA: &str = "QUOTA_EXCEEDED";
/// The reasons with which a server has no room for a stream now.
const NO_ROOM: [&str; 3] = ["SERVER_FULL", "WATCHERS_FULL", OVER_QUOTA];

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
        let mut error = Self::unsent(status);
        error.maybe_sent = !failed_to_connect(&error.status) && !error.did_nothing();
        error
    }

    /// An operation that failed before a connection took it.
    pub(crate) fn unsent(status: Status) -> Self {
        let (server, explanation, tried, earlier) = (None, None, Vec::new(), None);
        let (maybe_sent, stream_refused) = (false, false);
        Self { status: Box::new(status), maybe_sent, stream_refused, server, explanation, tried, earlier }
    }

    /// The same error, of a stream that could not be opened, and of its operations.
    pub(crate) fn of_opening(self) -> Self {
        if self.is_transient() { self } else { Self { maybe_sent: false, stream_refused: true, ..self } }
    }

    /// The same error, of an operation that was not sent.
    pub(crate) fn before_sending(self) -> Self {
        Self { maybe_sent: false, ..self }
    }

    /// The error of one operation of a session.
    pub(crate) fn from_operation(error: &v1::OperationError) -> Self {
        // It has the fields of `google.rpc.Status`, which a status carries as its details.
        let details = error.encode_to_vec();
        Self::new(Status::with_details(tonic::Code::from(error.code), error.message.clone(), details.into()))
    }

    /// Records that an earlier transmission of the request may have been sent.
    pub(crate) fn after_sending(mut self, maybe_sent: bool) -> Self {
        self.maybe_sent |= maybe_sent;
        self
    }

    /// Adds the address, and the reason if connections to it showed why the server cannot be called.
    pub(crate) fn with_greeting(mut self, address: &ServerAddress, greeting: &Greeting) -> Self {
        self.server = Some(address.to_string());
        let explain = |text, why, is_permanent| Some(Box::new(Explanation { text, why, is_permanent }));
        if self.code() == Code::Unimplemented {
            self.explanation = explain(format!("{address} {}", facts::NOT_FENCEPOST), Reason::NotFencepost, true);
            return self;
        }
        let Some(Evidence { why, maybe_sent, is_certain }) = greeting.evidence().filter(|_| self.is_transient()) else {
            return self;
        };
        self.explanation = match why {
            Why::Tls(failure) => {
                let is_permanent = is_certain && failure.is_lasting();
                explain(format!("{address}: {failure}"), Reason::Tls(failure), is_permanent)
            }
            Why::NotGrpc(_) if failed_to_connect(&self.status) => return self,
            // What spoke gRPC before may do so again: a proxy answers while its server restarts.
            Why::NotGrpc(words) => explain(format!("{address} {words}"), Reason::NotGrpc, is_certain && !maybe_sent),
        };
        self.maybe_sent &= maybe_sent;
        self
    }

    /// Adds what is wrong with each server that was tried.
    pub(crate) fn after_trying(mut self, diagnoses: Vec<String>) -> Self {
        self.tried = diagnoses;
        self
    }

    /// Adds what a server answered to an earlier transmission, unless this error is itself an answer.
    pub(crate) fn after_answer(mut self, earlier: Option<CallError>) -> Self {
        self.earlier = earlier.filter(|_| !self.is_answer()).map(Box::new);
        self
    }

    /// What a server answered to an earlier transmission, if the last one got no answer: why the call was repeated, and
    /// not its outcome. The text of this error tells it.
    pub fn last_answer(&self) -> Option<&Self> {
        self.earlier.as_deref()
    }

    /// Whether a server answered. Proxies and broken connections give no reason.
    pub(crate) fn is_answer(&self) -> bool {
        self.reason().is_some()
    }

    /// What a server answered, as a part of the text of another error. For the command line.
    #[doc(hidden)]
    pub fn as_last_answer(&self) -> String {
        let reason = self.reason().map(|reason| format!(" ({reason})")).unwrap_or_default();
        facts::LAST_ANSWER.replace("{}", &format!("{}{reason}: {}", self.code(), self.cause()))
    }

    /// The reason why the port is known not to speak gRPC: a web server or a Redis answered, or nothing did, as if a
    /// server hung. If it cannot be a server that hangs, the call was not retried.
    ///
    /// Always `None` for a server added with [`ClientBuilder::raw_endpoint`](crate::ClientBuilder::raw_endpoint).
    pub fn not_grpc(&self) -> Option<&str> {
        self.explanation.as_deref().filter(|it| it.why == Reason::NotGrpc).map(|it| it.text.as_str())
    }

    /// Why TLS with the server failed. If that stays until somebody changes certificates, on either side, the call was
    /// not retried.
    ///
    /// Always `None` for a server added with [`ClientBuilder::raw_endpoint`](crate::ClientBuilder::raw_endpoint).
    pub fn tls_failure(&self) -> Option<&TlsFailure> {
        match &self.explanation.as_deref()?.why {
            Reason::Tls(failure) => Some(failure),
            Reason::NotGrpc | Reason::NotFencepost => None,
        }
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
        self.is_unavailable() && !self.did_nothing()
    }

    /// Whether nothing was done, and a later retry may succeed: no server that speaks gRPC was reached, or each one
    /// that answered said that it did nothing. Then [`reason`](Self::reason) has its word for it, such as `DRAINING`.
    pub fn is_unavailable(&self) -> bool {
        !self.maybe_sent && self.is_transient()
    }

    /// Whether a server answered that it did nothing, although a later retry may succeed: it drains, for example.
    /// Earlier transmissions of the call may have been applied nevertheless
    /// ([`is_outcome_unknown`](Self::is_outcome_unknown)).
    pub fn did_nothing(&self) -> bool {
        self.code() == Code::Unavailable && self.reason().is_some_and(|reason| NOTHING_DONE.contains(&reason.as_str()))
    }

    /// Why the server cannot be called, as its port showed it, with the server's address: [`not_grpc`](Self::not_grpc),
    /// [`tls_failure`](Self::tls_failure), or that the server does not implement the call.
    pub fn explanation(&self) -> Option<&str> {
        self.explanation.as_deref().map(|it| it.text.as_str())
    }

    /// What the last transmission came to.
    fn outcome(&self) -> String {
        let diagnosis = self.diagnosis();
        if self.is_outcome_unknown() {
            return format!("outcome unknown: {diagnosis}");
        }
        if self.is_unreachable() {
            let tried = if self.tried.is_empty() { diagnosis } else { self.tried.join("; ") };
            return format!("no server could be reached: {tried}");
        }
        match self.reason() {
            Some(reason) if self.explanation.is_none() && !self.did_nothing() => format!("{diagnosis} ({reason})"),
            _ => diagnosis,
        }
    }

    /// What is wrong with the server, with its address if it cannot be called.
    pub(crate) fn diagnosis(&self) -> String {
        match (&self.explanation, &self.server) {
            (Some(explanation), _) => explanation.text.clone(),
            (None, Some(server)) if self.is_unreachable() || self.status.source().is_some() => {
                format!("{server}: {}", self.cause())
            }
            _ => self.cause(),
        }
    }

    /// The innermost cause, such as `Connection refused (os error 111)`; the server's message, if a server answered.
    pub fn cause(&self) -> String {
        let innermost = root_cause(&*self.status).to_string();
        match (self.status.source(), self.message()) {
            (Some(_), _) if !innermost.is_empty() => innermost,
            (_, "") => format!("the call ended with the code {} and no message", self.code()),
            (_, message) => message.to_owned(),
        }
    }

    /// Whether retries on this server fail until somebody changes something.
    pub(crate) fn is_permanent(&self) -> bool {
        self.explanation.as_deref().is_some_and(|it| it.is_permanent)
    }

    /// Whether a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self.code() {
            Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded => true,
            // A status made on this side for a broken connection has a source; one that a server sent has none.
            _ => self.status.source().is_some(),
        }
    }

    /// Whether the session had too many operations and did nothing. The operation may be retried.
    pub(crate) fn is_session_full(&self) -> bool {
        self.code() == Code::ResourceExhausted && self.reason().as_deref() == Some("SESSION_FULL")
    }

    /// Whether the caller has used up its quota on the server, which did nothing. Each server has as much for it, so
    /// the call is not repeated on another one: that would only spread what is too much.
    pub(crate) fn is_over_quota(&self) -> bool {
        self.code() == Code::ResourceExhausted && self.reason().as_deref() == Some(OVER_QUOTA)
    }

    /// Whether a server has no room for a stream now. It may be opened later.
    pub(crate) fn may_open_later(&self) -> bool {
        let no_room = |reason: String| NO_ROOM.contains(&reason.as_str());
        self.stream_refused && self.code() == Code::ResourceExhausted && self.reason().is_some_and(no_room)
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
        Code::of(self.status.code())
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

    pub(crate) fn status(&self) -> &Status {
        &self.status
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.outcome();
        // The text may have it already, as the error of one of several servers.
        let tells = |answer: &Self| self.is_unreachable() && self.tried.contains(&answer.diagnosis());
        if let Some(answer) = self.last_answer().filter(|answer| !tells(answer)) {
            text = format!("{text}; {}", answer.as_last_answer());
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("CallError");
        debug.field("code", &self.code()).field("message", &self.message()).field("reason", &self.reason());
        debug.field("maybe_sent", &self.maybe_sent).field("explanation", &self.explanation);
        debug.field("last_answer", &self.earlier).finish_non_exhaustive()
    }
}

impl std::error::Error for CallError {}

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
pub(crate) fn root_cause<'e>(
    mut error: &'e (dyn std::error::Error + 'static),
) -> &'e (dyn std::error::Error + 'static) {
    while let Some(below) = error.source() {
        error = below;
    }
    error
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
