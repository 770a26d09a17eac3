//! The client that the commands share, and the messages for failed calls.

use super::{
    args::ServerArgs,
    exit::{Failure, NOT_ACQUIRED, UNAVAILABLE, USAGE},
    text,
};
use fencepost_client::{CallError, Client, FieldViolation, v1::GetRequest};
use std::{error::Error, time::Duration};
use tonic::Code;

/// How long a failed call is retried. Short, because a person is waiting.
pub(super) const RETRY_FOR: Duration = Duration::from_secs(2);

/// A client of the servers that the arguments name.
pub(super) fn client(args: &ServerArgs, holder: String, retry_for: Duration) -> Result<Client, Failure> {
    let builder = args.addresses().into_iter().fold(Client::builder(), |builder, address| builder.server(address));
    let built = builder.holder(holder).retry_for(retry_for).build();
    built.map_err(|error| Failure::new(USAGE, format!("{error}; name a server with --server or FENCEPOST_SERVER")))
}

/// Fails if no server is reachable. A waiting client retries for the whole wait, because the server may be restarting.
/// This check reports a mistyped address at once.
pub(super) async fn reachable(client: &Client, lock_name: &str, args: &ServerArgs) -> Result<(), Failure> {
    match client.calls().get(GetRequest { lock_name: lock_name.to_owned() }).await {
        Err(error) if error.is_unreachable() || error.not_grpc().is_some() => Err(failed(&error, CallKind::Read, args)),
        // The request itself reports any other error.
        _ => Ok(()),
    }
}

/// Whether a call changes state, so that an unknown outcome matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// It only reads.
    Read,
    /// It changes state. A repeat with the same ids has no further effect.
    Write,
}

/// The failure of a call: what happened, why, and what to do.
pub(super) fn failed(error: &CallError, kind: CallKind, args: &ServerArgs) -> Failure {
    let call = FailedCall {
        code: error.code(),
        message: error.message().to_owned(),
        not_grpc: error.not_grpc().map(str::to_owned),
        unreachable: error.is_unreachable(),
        unanswered: error.is_outcome_unknown(),
        cause: root_cause(error),
        reason: error.reason().unwrap_or_default(),
        violations: error.field_violations(),
        retry_delay: error.retry_delay(),
    };
    call.explain(kind, &args.addresses().join(", "))
}

/// The message of the innermost error of a chain. The outer ones only say that an inner one occurred.
fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}

/// The details of a failed call.
struct FailedCall {
    code: Code,
    message: String,
    not_grpc: Option<String>,
    unreachable: bool,
    unanswered: bool,
    cause: String,
    reason: String,
    violations: Vec<FieldViolation>,
    retry_delay: Option<Duration>,
}

impl FailedCall {
    fn explain(&self, kind: CallKind, servers: &str) -> Failure {
        if let Some(message) = &self.not_grpc {
            let unknown = if self.unanswered && kind == CallKind::Write {
                "; if it is, the call may or may not have taken effect: check with 'fencepost get'"
            } else {
                ""
            };
            let advice = "is this the address of a Fencepost server? Name a server with --server or FENCEPOST_SERVER";
            return Failure::new(UNAVAILABLE, format!("{message}: {advice}{unknown}"));
        }
        if self.unreachable {
            let advice =
                "is it running? Start one with 'fencepost serve', or name another with --server or FENCEPOST_SERVER";
            return Failure::new(
                UNAVAILABLE,
                format!("cannot reach the server at {servers} ({}): {advice}", self.cause),
            );
        }
        let message = if self.message.is_empty() { self.cause.as_str() } else { self.message.as_str() };
        match (self.code, self.reason.as_str()) {
            _ if self.unanswered && kind == CallKind::Write => Failure::new(
                UNAVAILABLE,
                format!(
                    "outcome unknown: {servers} did not answer ({message}), so the call may or may not have taken \
                     effect: check with 'fencepost get'"
                ),
            ),
            _ if self.unanswered => {
                Failure::new(UNAVAILABLE, format!("no answer from {servers} ({message}): try again"))
            }
            (Code::InvalidArgument, _) => Failure::new(USAGE, invalid(message, &self.violations)),
            (Code::ResourceExhausted, _) => Failure::new(NOT_ACQUIRED, exhausted(message, self.retry_delay)),
            (Code::Aborted, "REQUEST_ENDED") => Failure::new(NOT_ACQUIRED, ENDED),
            (Code::Aborted, "OVERTAKEN") => Failure::new(NOT_ACQUIRED, OVERTAKEN),
            (Code::Unimplemented, _) => Failure::new(
                UNAVAILABLE,
                format!(
                    "{servers} does not implement this call: it is not a Fencepost server, or older than this program"
                ),
            ),
            (code, _) => Failure::new(UNAVAILABLE, format!("{servers} refused the call: {message} ({code:?})")),
        }
    }
}

pub(super) const ENDED: &str = "this request has already ended: try again, with a new --request-id if you gave one";
pub(super) const OVERTAKEN: &str = "a newer attempt of this request replaced this one, and gets the answer";

/// The message for a request that breaks a rule, with all violations.
pub(super) fn invalid(message: &str, violations: &[FieldViolation]) -> String {
    let rules: Vec<_> = violations.iter().map(|it| format!("{} {}", it.field, it.description)).collect();
    let why = if rules.is_empty() { message.to_owned() } else { rules.join("; ") };
    format!("the server refused the request: {why}")
}

/// The message for a request that exceeds a bound of the server.
pub(super) fn exhausted(message: &str, retry_after: Option<Duration>) -> String {
    match retry_after {
        Some(delay) => {
            format!("a limit of the server is reached: {message}; try again in {}", text::span(delay))
        }
        None => format!("a limit of the server is reached: {message}; try again later"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed_call(code: Code) -> FailedCall {
        FailedCall {
            code,
            message: "message".to_owned(),
            not_grpc: None,
            unreachable: false,
            unanswered: false,
            cause: "the cause".to_owned(),
            reason: String::new(),
            violations: Vec::new(),
            retry_delay: None,
        }
    }

    fn explained(call: &FailedCall, kind: CallKind) -> (u8, String) {
        let failure = call.explain(kind, "a:7420");
        (failure.code, failure.message)
    }

    #[test]
    fn the_message_for_an_unreachable_server_gives_advice() {
        let call = FailedCall { unreachable: true, ..failed_call(Code::Unavailable) };
        let (code, message) = explained(&call, CallKind::Write);
        assert_eq!(code, UNAVAILABLE);
        assert!(message.contains("a:7420 (the cause)") && message.contains("fencepost serve"), "{message}");
    }

    #[test]
    fn a_port_that_is_not_grpc_is_named() {
        let not_grpc = Some("a:7420 does not speak gRPC (it sent \"+PONG\")".to_owned());
        let other = FailedCall { not_grpc, unreachable: true, ..failed_call(Code::Unknown) };
        let (code, message) = explained(&other, CallKind::Write);
        assert_eq!(code, UNAVAILABLE);
        assert!(message.starts_with("a:7420 does not speak gRPC") && message.contains("--server"), "{message}");
        assert!(!message.contains("may or may not"), "{message}");
        let silent = FailedCall { unreachable: false, unanswered: true, ..other };
        assert!(explained(&silent, CallKind::Write).1.contains("may or may not"));
        assert!(!explained(&silent, CallKind::Read).1.contains("may or may not"));
    }

    #[test]
    fn only_a_write_has_an_unknown_outcome() {
        let silent = FailedCall { unanswered: true, ..failed_call(Code::Unavailable) };
        assert!(explained(&silent, CallKind::Write).1.contains("may or may not"));
        assert!(explained(&silent, CallKind::Read).1.contains("try again"));
    }

    #[test]
    fn refusals_have_their_own_exit_codes() {
        let invalid = failed_call(Code::InvalidArgument);
        let message = "the server refused the request: message".to_owned();
        assert_eq!(explained(&invalid, CallKind::Write), (USAGE, message));
        let retry_delay = Some(Duration::from_millis(200));
        let full = FailedCall { retry_delay, ..failed_call(Code::ResourceExhausted) };
        let (code, message) = explained(&full, CallKind::Write);
        assert_eq!(code, NOT_ACQUIRED);
        assert!(message.ends_with("try again in 200 ms"), "{message}");
        let ended = FailedCall { reason: "REQUEST_ENDED".to_owned(), ..failed_call(Code::Aborted) };
        assert_eq!(explained(&ended, CallKind::Write), (NOT_ACQUIRED, ENDED.to_owned()));
        assert!(explained(&failed_call(Code::Unimplemented), CallKind::Read).1.contains("older"));
        assert_eq!(explained(&failed_call(Code::Internal), CallKind::Read).0, UNAVAILABLE);
    }
}
